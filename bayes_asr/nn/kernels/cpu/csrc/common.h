// What the headers of a path begin with (base/csrc/instructions.h says what a path is).
//
// A file that compiles a path first sets PATH (its name in kernels.h), LANES (floats in a vector)
// and ROWS (rows whose sums fit into the registers); without, they are those of every machine.

#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "../../../../base/csrc/instructions.h"
#include "buffer.h"
#include "kernels.h"
#include "team.h"

#ifndef PATH
#define PATH kPortable
#define LANES 4
#ifdef __aarch64__
#define ROWS 8
#else
#define ROWS 4
#endif
#endif
