// x86-64 of about 2013 and later.

#define PATH kAvx2
#define LANES 8
#define ROWS 6
#include "common.h"

#ifdef __x86_64__
BEGIN_INSTRUCTIONS("avx2,fma")
#include "path.h"
END_INSTRUCTIONS
#endif
