#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "peak.cpp"
#include "peak.h"

#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace capstan::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Enough sums to hide the latency of two units, few enough for 16 registers.
inline constexpr int chains = 12;

/// Returns the operations done; what was computed goes to `sink`, so that it is not left out.
template <class T>
double Work(std::int64_t rounds, T* sink) {
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = hn::Set(d, sink[0]);
  const auto factor = hn::Set(d, sink[1]);
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < chains; ++i) sum[i] = hn::MulAdd(sum[i], factor, factor);
  for (int i = 1; i < chains; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  sink[2] = hn::GetLane(sum[0]);
  return 2.0 * static_cast<double>(hn::Lanes(d)) * chains * static_cast<double>(rounds);
}
HWY_ATTR double WorkF32(std::int64_t rounds, float* sink) { return Work(rounds, sink); }
HWY_ATTR double WorkF64(std::int64_t rounds, double* sink) { return Work(rounds, sink); }

}  // namespace capstan::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::bench {
namespace {
HWY_EXPORT(WorkF32);
HWY_EXPORT(WorkF64);

template <class T>
double measured(double (*work)(std::int64_t, T*)) {
  constexpr std::int64_t rounds = 500'000;
  double best = 0;
  for (int run = 0; run < 12; ++run) {
    std::atomic<double> operations = 0;
    const auto start = std::chrono::steady_clock::now();
    kernels::parallel_for(kernels::Region::other, kernels::thread_count(), [&](Index) {
      T sink[3] = {T{0}, static_cast<T>(0.5), T{0}};
      operations += work(rounds, sink);
      benchmark::DoNotOptimize(sink);
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, operations / time.count() * 1e-9);
  }
  return best;
}

}  // namespace

double fma_peak(DType dtype) {
  return dtype == DType::f64 ? measured<double>(HWY_DYNAMIC_DISPATCH(WorkF64))
                             : measured<float>(HWY_DYNAMIC_DISPATCH(WorkF32));
}

}  // namespace capstan::bench
#endif
