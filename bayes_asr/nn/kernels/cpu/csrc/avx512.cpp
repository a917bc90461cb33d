// x86-64 of about 2017 and later.

#define PATH kAvx512
#define LANES 16
#define ROWS 12
#include "common.h"

#ifdef __x86_64__
BEGIN_INSTRUCTIONS("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#include "path.h"
END_INSTRUCTIONS
#endif
