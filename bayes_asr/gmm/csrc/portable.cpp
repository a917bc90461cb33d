// Every machine: what the compiler makes of short vectors.

#include "path.h"
