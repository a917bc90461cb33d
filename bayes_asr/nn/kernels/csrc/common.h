// What all paths include before they choose an instruction set.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "buffer.h"
#include "kernels.h"
#include "team.h"

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
