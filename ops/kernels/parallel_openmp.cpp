// Parallel regions on OpenMP. Not compiled with CAPSTAN_OPENMP=0.
#if CAPSTAN_OPENMP

#include <capstan/ops/kernels/parallel_backend.h>

#include <omp.h>

#include <cstdint>

namespace capstan::kernels {

const char* backend_name() { return "openmp"; }

bool run_on_threads(int team, Index blocks, FunctionRef<void(Index)> body) {
  int members = 1;
  // Always the whole team, also for fewer blocks: libgomp ends threads when a team shrinks and starts them anew when it
  // grows. Dynamic, since blocks differ in cost; which thread runs a block has no influence on its bytes.
#pragma omp parallel num_threads(team) default(none) shared(members, blocks, body)
  {
#pragma omp single nowait
    members = omp_get_num_threads();
#pragma omp for schedule(dynamic, 1)
    for (Index block = 0; block < blocks; ++block) body(block);
  }
  return members > 1;
}

}  // namespace capstan::kernels

#endif
