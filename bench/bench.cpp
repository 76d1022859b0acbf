#include "bench.h"
#include "peak.h"

#include <capstan/ops/kernels/simd_targets.h>

#include <cstdio>
#include <cstdlib>

namespace capstan::bench {

void verify(std::string_view name, const std::vector<double>& values, const std::vector<double>& want,
            double tolerance) {
  bool good = values.size() == want.size();
  for (std::size_t i = 0; good && i < values.size(); ++i)
    good = std::abs(values[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i]));
  if (good) return;
  fmt::print(stderr, "{}: the result is wrong; nothing was timed\n", name);
  std::exit(1);
}

void verify(std::string_view name, const Tensor& got, const std::vector<double>& want, double tolerance) {
  verify(name, got.to_doubles(), want, tolerance);
}

void count_work(benchmark::State& state, double operations, double bytes) {
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = benchmark::Counter(bytes);
  state.counters["threads"] = benchmark::Counter(kernels::thread_count());
}

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  benchmark::AddCustomContext("simd", kernels::simd_target());
  benchmark::AddCustomContext("threads", fmt::format("{}", kernels::thread_count()));
  benchmark::AddCustomContext("fma_peak_f32", fmt::format("{:.1f}", fma_peak(DType::f32)));
  benchmark::AddCustomContext("fma_peak_f64", fmt::format("{:.1f}", fma_peak(DType::f64)));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace capstan::bench
