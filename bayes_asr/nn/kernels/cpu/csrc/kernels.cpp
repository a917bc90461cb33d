// The functions that Python calls, and which path they take.

#include "kernels.h"

#ifdef COMPILES_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "../../../../base/csrc/guarded.h"
#include "cells.h"
#include "team.h"

OpenMp openmp;

namespace {

struct Choice {
  const char *name;
  bool usable;
  const Path *path;
};

#ifdef COMPILES_AMX
// Whether the machine has tiles and Linux lets this process use them: they make what is saved for a
// signal larger, so that a process has to ask.  Compilers have no common name for them to ask by.
bool HasTiles() {
  constexpr int kBfloat16Products = 1 << 22, kTiles = 1 << 24;  // of leaf 7, in edx
  constexpr int kRequestPermission = 0x1023, kTileData = 18;    // asm/prctl.h, asm/fpu/types.h
  unsigned a, b, c, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kBfloat16Products) && (d & kTiles) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

// From the slowest to the fastest.
const Choice *Choices(int *count) {
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  static const Choice choices[] = {
      {"portable", true, &kPortable},
      {"avx2", avx2, &kAvx2},
      {"avx512", avx512, &kAvx512},
#ifdef COMPILES_BF16
      {"avx512_bf16", avx512 && __builtin_cpu_supports("avx512bf16"), &kAvx512Bf16},
#endif
#ifdef COMPILES_AMX
      {"amx_bf16", avx512 && __builtin_cpu_supports("avx512bf16") && HasTiles(), &kAmxBf16},
#endif
  };
#else
  static const Choice choices[] = {{"portable", true, &kPortable}};
#endif
  *count = sizeof choices / sizeof choices[0];
  return choices;
}

// 0, or 1 where memory does not suffice.
template <class Work>
int64_t Run(int64_t path, void (*Path::*function)(const Work &), const Work &work) {
  return Guarded<int64_t>(1, [&] {
    int count;
    (Choices(&count)[path].path->*function)(work);
    return 0;
  });
}

}  // namespace

extern "C" {

// Work in the threads of this runtime: its functions GOMP_parallel and omp_get_num_threads.
void kernels_use_openmp(decltype(OpenMp::parallel) parallel,
                        decltype(OpenMp::size) size) noexcept {
  openmp = {parallel, size, getpid()};
}

// The name of path i, null behind the last; `usable` says whether this machine has it.
const char *kernels_path(int64_t i, int64_t *usable) noexcept {
  int count;
  const Choice *choices = Choices(&count);
  if (i >= count) return nullptr;
  *usable = choices[i].usable;
  return choices[i].name;
}

// The rows of the tables of units and activations, behind the last one a row without a name.
const UnitRow *kernels_units() noexcept { return kUnits; }
const ActivationRow *kernels_activations() noexcept { return kActivations; }

// All return 0, or 1 where memory does not suffice.
int64_t kernels_forward(int64_t path, const Job *job) {
  return Run(path, &Path::forward, *job);
}

int64_t kernels_backward(int64_t path, const Job *job) {
  return Run(path, &Path::backward, *job);
}

int64_t kernels_multiply(int64_t path, const Product *product) {
  return Run(path, &Path::multiply, *product);
}

int64_t kernels_cross_entropy(int64_t path, const CrossEntropyJob *job) {
  return Run(path, &Path::cross_entropy, *job);
}

const char *kernels_description() noexcept {
  static const std::string text = Interface()
                                      .Struct<UnitRowFields>()
                                      .Struct<ActivationRowFields>()
                                      .Struct<JobFields>()
                                      .Struct<ProductFields>()
                                      .Struct<CrossEntropyJobFields>()
                                      .Function(NAMED(kernels_use_openmp))
                                      .Function(NAMED(kernels_path))
                                      .Function(NAMED(kernels_units))
                                      .Function(NAMED(kernels_activations))
                                      .Function(NAMED(kernels_forward))
                                      .Function(NAMED(kernels_backward))
                                      .Function(NAMED(kernels_multiply))
                                      .Function(NAMED(kernels_cross_entropy))
                                      .Function(NAMED(kernels_keep_mask))
                                      .text();
  return text.c_str();
}

}  // extern "C"
