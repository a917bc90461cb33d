// x86-64 with products of bfloat16, which sum in float32.

#define PATH kAvx512Bf16
#define LANES 16
#define ROWS 12
#include "common.h"

#ifdef COMPILES_BF16
#define BF16_PRODUCTS

BEGIN_INSTRUCTIONS("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")
#include "path.h"
END_INSTRUCTIONS
#endif
