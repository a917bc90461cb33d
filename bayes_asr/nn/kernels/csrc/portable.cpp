// Every machine: what the compiler makes of short vectors.

#include "common.h"

#define PATH kPortable
#define LANES 4
#ifdef __aarch64__
#define ROWS 8
#else
#define ROWS 4
#endif
#include "path.h"
