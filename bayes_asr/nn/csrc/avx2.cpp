#include "common.h"

#ifdef __x86_64__
#include <immintrin.h>

BEGIN_INSTRUCTIONS("avx2,fma")
#define PATH kAvx2
#define LANES 8
#define ROWS 6
#include "path.h"
END_INSTRUCTIONS
#endif
