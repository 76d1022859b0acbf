// What the machine can do: the yardstick for "fraction of peak".
#pragma once

#include <capstan/autograd/dtype.h>

namespace capstan::bench {

/// Fused multiply-adds in registers on kernels::thread_count() threads: 1e9 operations a second, a multiply-add being two.
/// The best of some runs of a few milliseconds each.
double fma_peak(DType dtype);

}  // namespace capstan::bench
