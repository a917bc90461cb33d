// What a path begins with (base/csrc/instructions.h says what a path is).
//
// A file that compiles a path first sets PATH (its name in gmm.h) and LANES (doubles in a vector);
// without, they are those of every machine.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../../base/csrc/instructions.h"
#include "gmm.h"

#ifndef PATH
#define PATH kPortable
#define LANES 2
#endif
