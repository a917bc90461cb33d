// x86-64 with products of bfloat16, which sum in float32.

#include "common.h"

#ifdef COMPILES_BF16
#include <immintrin.h>

BEGIN_INSTRUCTIONS("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")
#define PATH kAvx512Bf16
#define LANES 16
#define ROWS 12
#define BF16_PRODUCTS
#include "path.h"
END_INSTRUCTIONS
#endif
