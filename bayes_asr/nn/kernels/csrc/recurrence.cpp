// The functions that Python calls, and which path they take.

#include "recurrence.h"

#include "team.h"

OpenMp openmp;

namespace {

struct Choice {
  const char *name;
  bool usable;
  const Path *path;
};

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
  };
#else
  static const Choice choices[] = {{"portable", true, &kPortable}};
#endif
  *count = sizeof choices / sizeof choices[0];
  return choices;
}

}  // namespace

extern "C" {

int64_t recurrence_interface() { return 5; }
int64_t recurrence_structs_size() { return sizeof(Job) + sizeof(Product) + sizeof(CrossEntropy); }

// Work in the threads of this runtime: its functions GOMP_parallel and omp_get_num_threads.
void recurrence_use_openmp(decltype(OpenMp::parallel) parallel, decltype(OpenMp::size) size) {
  openmp = {parallel, size, getpid()};
}

// The name of path i, null behind the last; `usable` says whether this machine has it.
const char *recurrence_path(int64_t i, int64_t *usable) {
  int count;
  const Choice *choices = Choices(&count);
  if (i >= count) return nullptr;
  *usable = choices[i].usable;
  return choices[i].name;
}

// All return 0, or 1 where memory does not suffice.
int64_t recurrence_forward(int64_t path, const Job *job) {
  int count;
  return !Choices(&count)[path].path->forward(*job);
}

int64_t recurrence_backward(int64_t path, const Job *job) {
  int count;
  return !Choices(&count)[path].path->backward(*job);
}

int64_t recurrence_multiply(int64_t path, const Product *product) {
  int count;
  return !Choices(&count)[path].path->multiply(*product);
}

int64_t recurrence_cross_entropy(int64_t path, const CrossEntropy *job) {
  int count;
  return !Choices(&count)[path].path->cross_entropy(*job);
}

}  // extern "C"
