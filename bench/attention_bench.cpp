// Causal attention, forward and forward + backward, through the tape: attention/composed/{fwd,fwd_bwd}/BxHxTxD, f32.
// GFLOP/s counts the causal half: 2·B·H·T²·D forward, 3.5 times that with backward. Threads by OMP_NUM_THREADS.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/attention.h>

#include "bench.h"

namespace capstan::bench {
namespace {

struct Sizes {
  Index batch, heads, length, width;
  std::string name() const { return fmt::format("{}x{}x{}x{}", batch, heads, length, width); }
  Shape shape() const { return {batch, heads, length, width}; }
  double operations() const { return 2.0 * static_cast<double>(batch * heads * length * length * width); }
};

constexpr Sizes sizes[] = {{1, 1, 64, 64},   {4, 4, 64, 16},    {8, 8, 128, 64},  {4, 12, 256, 64},
                           {1, 12, 512, 64}, {1, 12, 1024, 64}, {1, 8, 2048, 64}, {8, 8, 128, 32},
                           {8, 8, 128, 128}, {1, 1, 256, 64},   {1, 4, 256, 64}};

struct Operands {
  Tensor q, k, v, up;
  explicit Operands(const Sizes& s)
      : q(normal({.seed = 1}, s.shape())),
        k(normal({.seed = 2}, s.shape())),
        v(normal({.seed = 3}, s.shape())),
        up(normal({.seed = 4}, s.shape())) {}
};

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return attention_reference(q, k, v, {.mask = Mask::causal()}).output;
}

/// softmax(q kᵀ / √D) v by plain loops in f64, of the first batch item and head.
std::vector<double> by_loops(const Sizes& s, const Operands& in) {
  const std::vector<double> q = in.q.to_doubles(), k = in.k.to_doubles(), v = in.v.to_doubles();
  const auto width = static_cast<std::size_t>(s.width);
  std::vector<double> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(s.length); ++i) {
    std::vector<double> weight(i + 1);
    double total = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::size_t d = 0; d < width; ++d) score += q[i * width + d] * k[j * width + d];
      total += weight[j] = std::exp(score / std::sqrt(static_cast<double>(width)));
    }
    for (std::size_t d = 0; d < width; ++d) {
      double sum = 0;
      for (std::size_t j = 0; j <= i; ++j) sum += weight[j] * v[j * width + d];
      out.push_back(sum / total);
    }
  }
  return out;
}

void check(const Sizes& s, const Operands& in) {
  const Tensor out = attention(in.q, in.k, in.v);
  const std::vector<double> values = out.to_doubles(), want = by_loops(s, in);
  const std::vector<double> first(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(want.size()));
  verify("attention/" + s.name(), tensor(first, {static_cast<Index>(first.size())}), want, 2e-5);
}

void forward(benchmark::State& state, const Sizes& s) {
  const Operands in(s);
  check(s, in);
  for (auto _ : state) benchmark::DoNotOptimize(attention(in.q, in.k, in.v));
  count_work(state, s.operations(), 4.0 * static_cast<double>(s.shape().elements()) * 4);
}

void forward_backward(benchmark::State& state, const Sizes& s) {
  const Operands in(s);
  check(s, in);
  for (auto _ : state) {
    Tape tape;
    const Tensor q = tape.watch(in.q), k = tape.watch(in.k), v = tape.watch(in.v);
    benchmark::DoNotOptimize(tape.backward(attention(q, k, v), in.up));
  }
  count_work(state, 3.5 * s.operations(), 8.0 * static_cast<double>(s.shape().elements()) * 4);
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan::bench;
  for (const Sizes& s : sizes) {
    benchmark::RegisterBenchmark(("attention/composed/fwd/" + s.name()).c_str(), [&s](benchmark::State& state) {
      forward(state, s);
    })->UseRealTime();
    benchmark::RegisterBenchmark(("attention/composed/fwd_bwd/" + s.name()).c_str(), [&s](benchmark::State& state) {
      forward_backward(state, s);
    })->UseRealTime();
  }
  return capstan::bench::main(count, arguments);
}
