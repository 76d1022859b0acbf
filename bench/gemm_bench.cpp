// Matrix products of GPT shapes on the kernels' seam, gemm/{f32,f64}/MODEL/LAYER/PASS/MxNxK: a linear layer's forward pass
// x Wᵀ, and backward dx = dy W and dW = dyᵀ x, with the strides that ops give them; squares; batches of attention's
// products. Not for: the tape's share (ops_bench). Threads by OMP_NUM_THREADS.
#include <capstan/ops/kernels/gemm.h>

#include <memory>
#include <vector>

#include "bench.h"

namespace capstan::bench {
namespace {

using kernels::Operands;
using kernels::Product;

/// Matrices of `batch` products C [m, n] = A [m, k] · B [k, n]; a transposed one lies in memory by columns.
struct Shapes {
  Index batch, m, n, k;
  bool a_transposed = false, b_transposed = false;

  template <class T>
  Product<T> product(const T* a, const T* b, T* c) const {
    Product<T> p;
    p.m = m, p.n = n, p.k = k;
    p.a = a, p.a_row = a_transposed ? 1 : k, p.a_column = a_transposed ? m : 1;
    p.b = b, p.b_row = b_transposed ? 1 : n, p.b_column = b_transposed ? k : 1;
    p.c = c, p.c_row = n;
    return p;
  }
};

/// Deterministic values in [−1, 1), as fast as memory.
template <class T>
std::unique_ptr<T[]> values(Index count, std::uint32_t state) {
  auto x = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;  // Knuth's "quick and dirty" generator
    x[static_cast<std::size_t>(i)] = static_cast<T>(static_cast<std::int32_t>(state)) * static_cast<T>(0x1p-31);
  }
  return x;
}

template <class T>
void run(benchmark::State& state, const std::string& name, const Shapes& s) {
  const auto a = values<T>(s.batch * s.m * s.k, 1), b = values<T>(s.batch * s.k * s.n, 2);
  const auto c = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(s.batch * s.m * s.n));
  const Product<T> p = s.product(a.get(), b.get(), c.get());
  const auto multiply = [&] {
    if (s.batch == 1) return kernels::gemm(p);
    kernels::gemm<T>(p, s.batch, [&](Index item) {
      return Operands<T>{p.a + item * s.m * s.k, p.b + item * s.k * s.n, p.c + item * s.m * s.n};
    });
  };

  multiply();
  std::vector<double> got, want;
  for (Index sample = 0; sample < 100; ++sample) {
    // A stride without a common factor with most sizes: all rows, columns and items are met.
    const Index at = sample * 7919 * 104729 % (s.batch * s.m * s.n);
    const Index item = at / (s.m * s.n), i = at / s.n % s.m, j = at % s.n;
    double sum = 0;
    for (Index q = 0; q < s.k; ++q)
      sum += static_cast<double>(p.a[item * s.m * s.k + i * p.a_row + q * p.a_column]) *
             static_cast<double>(p.b[item * s.k * s.n + q * p.b_row + j * p.b_column]);
    want.push_back(sum);
    got.push_back(static_cast<double>(p.c[at]));
  }
  verify(name, got, want, sizeof(T) == 4 ? 2e-4 : 1e-12);

  for (auto _ : state) {
    multiply();
    benchmark::ClobberMemory();
  }
  const auto items = static_cast<double>(s.batch);
  count_work(state, 2.0 * items * static_cast<double>(s.m * s.n) * static_cast<double>(s.k),
             items * static_cast<double>((s.m * s.k + s.k * s.n + s.m * s.n) * static_cast<Index>(sizeof(T))));
}

void add(const std::string& what, const Shapes& s, bool f64 = true) {
  const std::string batch = s.batch == 1 ? "" : fmt::format("{}x", s.batch);
  const std::string name = fmt::format("{}/{}{}x{}x{}", what, batch, s.m, s.n, s.k);
  const auto one = [&](const std::string& full, auto function) {
    benchmark::RegisterBenchmark(full.c_str(), [full, s, function](benchmark::State& state) {
      function(state, full, s);
    })->UseRealTime();
  };
  one("gemm/f32/" + name, run<float>);
  if (f64) one("gemm/f64/" + name, run<double>);
}

/// The three products of y [rows, out] = x [rows, in] Wᵀ.
void add_linear(const std::string& layer, Index rows, Index out, Index in, bool f64 = true) {
  add(layer + "/forward", {1, rows, out, in, false, true}, f64);
  add(layer + "/dx", {1, rows, in, out}, f64);
  add(layer + "/dw", {1, out, in, rows, true, false}, f64);
}

struct Model {
  const char* name;
  Index rows, width, vocabulary;
};
constexpr Model models[] = {
    {"nano", 768, 128, 65}, {"baby", 4096, 384, 65}, {"gpt2s", 256, 768, 50257}, {"gpt2", 1024, 768, 0}};

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan::bench;
  for (const Model& model : models) {
    const std::string name = model.name;
    const auto rows = model.rows, width = model.width;
    add_linear(name + "/project", rows, width, width);
    add_linear(name + "/qkv", rows, 3 * width, width);
    add_linear(name + "/up", rows, 4 * width, width);
    add_linear(name + "/down", rows, width, 4 * width);
    // GPT-2's 50257 words take too long in f64 for a test.
    if (model.vocabulary > 0) add_linear(name + "/head", rows, model.vocabulary, width, model.vocabulary < 1000);
  }
  for (const capstan::Index size : {64, 128, 256, 512, 1024}) add("square", {1, size, size, size});
  add("token", {1, 1, 3072, 768, false, true});
  add("small", {64, 64, 64, 64, false, true});
  add("small", {64, 64, 64, 64});
  add("scores", {12, 1024, 1024, 64, false, true});
  add("outputs", {12, 1024, 64, 1024});
  add("dv", {12, 1024, 64, 1024, true, false});
  add("scores", {48, 256, 256, 64, false, true});
  add("outputs", {48, 256, 64, 256});
  add("dv", {48, 256, 64, 256, true, false});
  return capstan::bench::main(count, arguments);
}
