// What the headers of a path begin with.  A path is the code for one instruction set, which is
// chosen behind this header: what comes from the standard library is compiled for every machine.
// The rest is in namespaces without a name, so that no function of one path stands in for that of
// another.
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

#define INLINE inline __attribute__((always_inline))

#ifdef __clang__
#define INSTRUCTIONS_STRING(text) #text
#define BEGIN_INSTRUCTIONS(names) \
  _Pragma(INSTRUCTIONS_STRING(                                                        \
      clang attribute push(__attribute__((target(names))), apply_to = function)))
#define END_INSTRUCTIONS _Pragma("clang attribute pop")
#else
#define INSTRUCTIONS_STRING(text) #text
#define BEGIN_INSTRUCTIONS(names) \
  _Pragma("GCC push_options") _Pragma(INSTRUCTIONS_STRING(GCC target(names)))
#define END_INSTRUCTIONS _Pragma("GCC pop_options")
#endif
