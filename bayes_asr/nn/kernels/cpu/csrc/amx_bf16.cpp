// x86-64 with tiles that multiply matrices of bfloat16, as servers by Intel of 2023 and later.

#define PATH kAmxBf16
#define LANES 16
#define ROWS 12
#include "common.h"

#ifdef COMPILES_AMX
#define BF16_PRODUCTS
#define AMX_PRODUCTS

BEGIN_INSTRUCTIONS(
    "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma")
#include "path.h"
END_INSTRUCTIONS
#endif
