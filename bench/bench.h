// What the benchmarks share: the check that comes before the clock, counters, and main().
#pragma once

#include <capstan/autograd/format.h>
#include <capstan/autograd/tensor.h>
#include <capstan/ops/kernels/parallel.h>

#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::bench {

/// Ends the program, naming the benchmark, unless `got` is within `tolerance` · max(1, |want|) everywhere: a wrong result is
/// not worth timing.
void verify(std::string_view name, const std::vector<double>& values, const std::vector<double>& want, double tolerance);
void verify(std::string_view name, const Tensor& got, const std::vector<double>& want, double tolerance);

/// Work per iteration as a rate in the report: "GFLOP/s" (1e9 operations a second), and bytes touched at least once.
void count_work(benchmark::State& state, double operations, double bytes);

/// Runs what was registered. The JSON's context says what the machine can do in the same minute: "fma_peak_f32" and "_f64", in
/// GFLOP/s over the threads of this run, and "simd", the vector instructions that were chosen.
int main(int count, char** arguments);

}  // namespace capstan::bench
