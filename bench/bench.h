// What the benchmarks share: names, counters, and the check that comes before the clock.
#pragma once

#include <capstan/autograd/format.h>
#include <capstan/autograd/tensor.h>
#include <capstan/ops/kernels/parallel.h>

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace capstan::bench {

/// Ends the program, naming the benchmark, unless `got` is within `tolerance` · max(1, |want|) everywhere: a wrong result is
/// not worth timing.
inline void verify(std::string_view name, const std::vector<double>& values, const std::vector<double>& want,
                   double tolerance) {
  bool good = values.size() == want.size();
  for (std::size_t i = 0; good && i < values.size(); ++i)
    good = std::abs(values[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i]));
  if (good) return;
  fmt::print(stderr, "{}: the result is wrong; nothing was timed\n", name);
  std::exit(1);
}
inline void verify(std::string_view name, const Tensor& got, const std::vector<double>& want, double tolerance) {
  verify(name, got.to_doubles(), want, tolerance);
}

/// Work per iteration as a rate in the report: "GFLOP/s" (1e9 operations a second), and bytes touched at least once.
inline void count_work(benchmark::State& state, double operations, double bytes) {
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = benchmark::Counter(bytes);
  state.counters["threads"] = benchmark::Counter(kernels::thread_count());
}

/// Runs what was registered.
inline int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace capstan::bench
