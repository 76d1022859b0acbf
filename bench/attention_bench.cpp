// Causal attention, forward and forward + backward, through the tape: attention/{fused,composed}/{fwd,fwd_bwd}/BxHxTxD, f32.
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

using Attend = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v) {
  return attention(q, k, v, {.mask = Mask::causal()}).output;
}
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v) {
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

struct Gradient {
  Tensor q, k, v;
};
Gradient gradient(Attend attend, const Operands& in) {
  Tape tape;
  const Tensor q = tape.watch(in.q), k = tape.watch(in.k), v = tape.watch(in.v);
  const Gradients g = tape.backward(attend(q, k, v), in.up);
  return {g.of(q), g.of(k), g.of(v)};
}

void check(const std::string& name, Attend attend, const Sizes& s, const Operands& in) {
  const std::vector<double> values = attend(in.q, in.k, in.v).to_doubles(), want = by_loops(s, in);
  const std::vector<double> first(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(want.size()));
  verify(name, tensor(first, {static_cast<Index>(first.size())}), want, 2e-5);
}

/// Against the composed gradients, which the tests prove.
void check_gradient(const std::string& name, Attend attend, const Operands& in) {
  const Gradient got = gradient(attend, in), want = gradient(composed, in);
  verify(name + " dq", got.q, want.q.to_doubles(), 5e-5);
  verify(name + " dk", got.k, want.k.to_doubles(), 5e-5);
  verify(name + " dv", got.v, want.v.to_doubles(), 5e-5);
}

void forward(benchmark::State& state, const std::string& name, Attend attend, const Sizes& s) {
  const Operands in(s);
  check(name, attend, s, in);
  for (auto _ : state) benchmark::DoNotOptimize(attend(in.q, in.k, in.v));
  count_work(state, s.operations(), 4.0 * static_cast<double>(s.shape().elements()) * 4);
}

void forward_backward(benchmark::State& state, const std::string& name, Attend attend, const Sizes& s) {
  const Operands in(s);
  check(name, attend, s, in);
  check_gradient(name, attend, in);
  for (auto _ : state) benchmark::DoNotOptimize(gradient(attend, in));
  count_work(state, 3.5 * s.operations(), 8.0 * static_cast<double>(s.shape().elements()) * 4);
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan::bench;
  struct Path {
    const char* name;
    Attend attend;
  };
  for (const Path& path : {Path{"fused", fused}, Path{"composed", composed}})
    for (const Sizes& s : sizes) {
      const auto add = [&](const char* what, auto* run) {
        const std::string name = fmt::format("attention/{}/{}/{}", path.name, what, s.name());
        benchmark::RegisterBenchmark(name.c_str(), [=, attend = path.attend, &s](benchmark::State& state) {
          run(state, name, attend, s);
        })->UseRealTime();
      };
      add("fwd", forward);
      add("fwd_bwd", forward_backward);
    }
  return capstan::bench::main(count, arguments);
}
