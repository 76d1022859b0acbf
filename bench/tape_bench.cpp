// The tape's overhead: chains of 1 000 ops, forward + backward. Counter per_op: the time of one of them. The 8×8 layers multiply by an orthogonal
// matrix: any other would sink the chain into denormals.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>

#include "bench.h"

namespace capstan::bench {
namespace {

constexpr int chain = 1000;

void report(benchmark::State& state) {
  state.counters["per_op"] =
      benchmark::Counter(chain, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// y = y · x, both gradients.
void scalar_mul(benchmark::State& state) {
  const Tensor x0 = tensor(1.001, DType::f64), y0 = tensor(1, DType::f64);
  const auto run = [&] {
    Tape tape;
    const Tensor x = tape.watch(x0);
    Tensor y = tape.watch(y0);
    for (int i = 0; i < chain; ++i) y = y * x;
    return tape.backward(y).of(x);
  };
  verify("tape/scalar_mul", run(), {chain * std::pow(1.001, chain - 1)}, 1e-11);
  for (auto _ : state) benchmark::DoNotOptimize(run());
  report(state);
}

/// y = y · c with a constant c.
void scalar_mul_constant(benchmark::State& state) {
  const Tensor c = tensor(1.001, DType::f64), y0 = tensor(1, DType::f64);
  const auto run = [&] {
    Tape tape;
    const Tensor start = tape.watch(y0);
    Tensor y = start;
    for (int i = 0; i < chain; ++i) y = y * c;
    return tape.backward(y).of(start);
  };
  verify("tape/scalar_mul_constant", run(), {std::pow(1.001, chain)}, 1e-11);
  for (auto _ : state) benchmark::DoNotOptimize(run());
  report(state);
}

/// y = y · x without a tape.
void scalar_mul_no_tape(benchmark::State& state) {
  const Tensor x = tensor(1.001, DType::f64), y0 = tensor(1, DType::f64);
  const auto run = [&] {
    Tensor y = y0;
    for (int i = 0; i < chain; ++i) y = y * x;
    return y;
  };
  verify("tape/scalar_mul_no_tape", run(), {std::pow(1.001, chain)}, 1e-11);
  for (auto _ : state) benchmark::DoNotOptimize(run());
  report(state);
}

/// A reflection I − 2uuᵀ: orthogonal.
Tensor reflection(DType dtype) {
  const Tensor u = reshape(normal({.seed = 5}, {8}, 0, 1, DType::f64), Shape{8, 1});
  return cast(eye(8, DType::f64) - 2.0 * matmul(u, transpose(u)) / sum(u * u), dtype);
}

void matmul_tanh(benchmark::State& state, DType dtype) {
  const Tensor weight = reflection(dtype), start = normal({.seed = 6}, {8, 8}, 0, 0.01, dtype),
               up = ones({8, 8}, dtype);
  const auto run = [&](int layers) {
    Tape tape;
    const Tensor w = tape.watch(weight);
    Tensor y = tape.watch(start);
    for (int i = 0; i < layers; ++i) y = tanh(matmul(y, w));
    return tape.backward(y, up).of(w);
  };
  const Tensor layer = tanh(matmul(start, weight));
  verify("tape/matmul_tanh_8x8", run(1), matmul(transpose(start), 1.0 - layer * layer).to_doubles(), 1e-6);
  for (auto _ : state) benchmark::DoNotOptimize(run(chain));
  report(state);
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan;
  using namespace capstan::bench;
  benchmark::RegisterBenchmark("tape/scalar_mul", scalar_mul);
  benchmark::RegisterBenchmark("tape/scalar_mul_constant", scalar_mul_constant);
  benchmark::RegisterBenchmark("tape/scalar_mul_no_tape", scalar_mul_no_tape);
  benchmark::RegisterBenchmark("tape/matmul_tanh_8x8", [](benchmark::State& state) { matmul_tanh(state, DType::f32); });
  benchmark::RegisterBenchmark("tape/matmul_tanh_8x8_f64",
                               [](benchmark::State& state) { matmul_tanh(state, DType::f64); });
  return capstan::bench::main(count, arguments);
}
