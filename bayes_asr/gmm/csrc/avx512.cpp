// x86-64 of about 2017 and later.

#define PATH kAvx512
#define LANES 8
#include "common.h"

#ifdef __x86_64__
BEGIN_INSTRUCTIONS("avx512f,avx2")
#include "path.h"
END_INSTRUCTIONS
#endif
