// x86-64 of about 2013 and later.

#define PATH kAvx2
#define LANES 4
#include "common.h"

#ifdef __x86_64__
BEGIN_INSTRUCTIONS("avx2")
#include "path.h"
END_INSTRUCTIONS
#endif
