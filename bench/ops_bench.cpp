// Matrix products of GPT shapes, matmul/{f32,f64}/MxNxK, and elementwise ops on 2^20 elements. Threads by OMP_NUM_THREADS.
#include <capstan/autograd/create.h>
#include <capstan/ops/ops.h>

#include "bench.h"

namespace capstan::bench {
namespace {

struct Product {
  Index m, n, k;
  std::string name() const { return fmt::format("{}x{}x{}", m, n, k); }
};

// Tokens × width of a projection, an mlp (up, down), a head over 256 bytes and over GPT-2's vocabulary; small ones.
constexpr Product products[] = {{2048, 128, 128},  {2048, 512, 128},  {2048, 128, 512}, {2048, 256, 128},
                                {4096, 384, 384},  {4096, 1536, 384}, {1024, 768, 768}, {1024, 3072, 768},
                                {256, 50257, 768}, {512, 512, 512},   {64, 64, 64},     {8, 8, 8}};

std::vector<double> first_row(const Tensor& a, const Tensor& b, const Product& p) {
  std::vector<double> row(static_cast<std::size_t>(p.n), 0.0);
  const std::vector<double> left = a.to_doubles(), right = b.to_doubles();
  for (std::size_t k = 0; k < static_cast<std::size_t>(p.k); ++k)
    for (std::size_t j = 0; j < row.size(); ++j) row[j] += left[k] * right[k * row.size() + j];
  return row;
}

void product(benchmark::State& state, const Product& p, DType dtype) {
  const Tensor a = normal({.seed = 1}, {p.m, p.k}, 0, 1, dtype), b = normal({.seed = 2}, {p.k, p.n}, 0, 1, dtype);
  verify("matmul/" + p.name(), reshape(slice(matmul(a, b), 0, 0, 1), Shape{p.n}), first_row(a, b, p),
         dtype == DType::f32 ? 2e-4 : 1e-12);
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b));
  const auto bytes = static_cast<double>((p.m * p.k + p.k * p.n + p.m * p.n) * size_of(dtype));
  count_work(state, 2.0 * static_cast<double>(p.m * p.n * p.k), bytes);
}

template <class F>
void elementwise(benchmark::State& state, F f, double (*reference)(double), DType dtype) {
  constexpr Index count = 1 << 20;
  const Tensor x = uniform({.seed = 1}, {count}, 0.5, 2, dtype);
  std::vector<double> want = x.to_doubles();
  for (double& value : want) value = reference(value);
  verify("elementwise", f(x), want, dtype == DType::f32 ? 1e-6 : 1e-14);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  count_work(state, count, 2.0 * static_cast<double>(count * size_of(dtype)));
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan;
  using namespace capstan::bench;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string type(name_of(dtype));
    for (const Product& p : products)
      benchmark::RegisterBenchmark(("matmul/" + type + "/" + p.name()).c_str(), [&p, dtype](benchmark::State& state) {
        product(state, p, dtype);
      })->UseRealTime();
    const auto add = [&](const char* name, Tensor (*f)(const Tensor&), double (*reference)(double)) {
      benchmark::RegisterBenchmark(fmt::format("elementwise/{}/{}", type, name).c_str(), [f, reference, dtype](
                                                                                             benchmark::State& state) {
        elementwise(state, f, reference, dtype);
      })->UseRealTime();
    };
    add(
        "exp", [](const Tensor& x) { return exp(x); }, std::exp);
    add(
        "tanh", [](const Tensor& x) { return tanh(x); }, std::tanh);
    add(
        "log", [](const Tensor& x) { return log(x); }, std::log);
    add(
        "square", [](const Tensor& x) { return x * x; }, [](double x) { return x * x; });
  }
  return capstan::bench::main(count, arguments);
}
