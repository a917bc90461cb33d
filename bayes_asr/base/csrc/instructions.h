// The same code for several instruction sets.
//
// A path of a library is what a file compiles between BEGIN_INSTRUCTIONS and END_INSTRUCTIONS, with
// vectors as wide as the registers of that set: wider ones would lie in memory.  What comes from the
// standard library stands before, and is for every machine.  A path is in namespaces without a
// name or always inlined, so that no function of one stands in for that of another.

#pragma once

#define INLINE inline __attribute__((always_inline))

#define INSTRUCTIONS_STRING(text) #text
#ifdef __clang__
#define BEGIN_INSTRUCTIONS(names) \
  _Pragma(INSTRUCTIONS_STRING(                                                        \
      clang attribute push(__attribute__((target(names))), apply_to = function)))
#define END_INSTRUCTIONS _Pragma("clang attribute pop")
#else
#define BEGIN_INSTRUCTIONS(names) \
  _Pragma("GCC push_options") _Pragma(INSTRUCTIONS_STRING(GCC target(names)))
#define END_INSTRUCTIONS _Pragma("GCC pop_options")
#endif
