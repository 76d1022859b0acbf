// Samples of ops/compare.h and ops/select.h. Comparisons have no gradient: theirs show that they run and record nothing;
// their values are in compare_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(std::uint64_t seed, const Shape& shape) { return uniform(Key{.seed = seed}, shape, -2, 2, DType::f64); }
Tensor coins(std::uint64_t seed, const Shape& shape) { return draw(seed, shape) > 0.0; }

void comparisons(Samples& samples, const char* op, Tensor (*f)(const Tensor&, const Tensor&)) {
  const auto both = [f](const List& x) { return List{f(x[0], x[1])}; };
  samples.push_back({op, "[2,3] both", {draw(21, {2, 3}), draw(22, {2, 3})}, both});
  samples.push_back({op, "[2,1] with [3]", {draw(21, {2, 1}), draw(22, {3})}, both});
  samples.push_back({op, "transposed with a scalar", {transpose(draw(21, {2, 3})), draw(22, {})}, both});
  samples.push_back({op, "empty", {draw(21, {0, 3}), draw(22, {3})}, both});
}

void connectives(Samples& samples, const char* op, Tensor (*f)(const Tensor&, const Tensor&)) {
  const auto both = [f](const List& x) { return List{f(x[0], x[1])}; };
  samples.push_back({op, "[2,3] both", {coins(23, {2, 3}), coins(24, {2, 3})}, both});
  samples.push_back({op, "[2,1] with [3]", {coins(23, {2, 1}), coins(24, {3})}, both});
  samples.push_back({op, "empty", {coins(23, {0, 3}), coins(24, {3})}, both});
  samples.push_back({op, "transposed with a scalar", {transpose(coins(23, {2, 3})), coins(24, {})}, both});
}

void selections(Samples& samples) {
  const auto three = [](const List& x) { return List{where(x[0], x[1], x[2])}; };
  const auto add_sample = [&](const char* label, List inputs) {
    samples.push_back({"where", label, std::move(inputs), three});
  };
  add_sample("[2,3] all", {coins(25, {2, 3}), draw(26, {2, 3}), draw(27, {2, 3})});
  add_sample("scalars", {coins(25, {}), draw(26, {}), draw(27, {})});
  add_sample("all three broadcast", {coins(25, {2, 1, 1}), draw(26, {3, 1}), draw(27, {4})});
  add_sample("the condition broadcasts", {coins(25, {3}), draw(26, {2, 3}), draw(27, {2, 3})});
  add_sample("a scalar side", {coins(25, {2, 3}), draw(26, {}), draw(27, {2, 3})});
  add_sample("strided",
             {transpose(coins(25, {3, 2})), slice(draw(26, {2, 5}), 1, 0, 5, 2), transpose(draw(27, {3, 2}))});
  add_sample("nothing taken from a", {coins(25, {4}) < coins(25, {4}), draw(26, {4}), draw(27, {4})});
  add_sample("empty", {coins(25, {4, 1}), draw(26, {4, 0}), draw(27, {1, 1})});
  samples.push_back({"where", "f(c, x, x)", {draw(26, {4})}, [c = coins(25, {4})](const List& x) {
                       return List{where(c, x[0], x[0])};
                     }});
  samples.push_back({"where", "numbers", {draw(26, {4})}, [](const List& x) {
                       return List{where(x[0] > 0.0, x[0], 0.5), where(x[0] > 0.0, 0.5, x[0] * x[0])};
                     }});
  samples.push_back({"where", "select inside a root", {tensor({-2, -0.75, 0.75, 2}, DType::f64)}, [](const List& x) {
                       const Tensor taken = x[0] > 0.0;
                       return List{where(taken, sqrt(where(taken, x[0], 1.0)), 1.0)};
                     }});
}

void casts(Samples& samples) {
  // Rounding to f32 would drown the differences: scaled by 1e-6, it stays below their tolerance.
  const auto through_f32 = [](const List& x) { return List{scale(cast(cast(x[0], DType::f32), DType::f64), 1e-6)}; };
  samples.push_back({"cast", "through f32 [2,3]", {draw(28, {2, 3})}, through_f32});
  samples.push_back({"cast", "through f32, transposed", {transpose(draw(28, {2, 3}))}, through_f32});
  samples.push_back({"cast", "through f32, scalar", {draw(28, {})}, through_f32});
  samples.push_back({"cast", "through f32, empty", {draw(28, {0})}, through_f32});
  samples.push_back(
      {"cast", "f64 to i32", {draw(28, {5})}, [](const List& x) { return List{cast(x[0], DType::i32)}; }});
  samples.push_back(
      {"cast", "f64 to bool", {draw(28, {5})}, [](const List& x) { return List{cast(x[0], DType::boolean)}; }});
}

}  // namespace

Samples compare_samples() {
  Samples samples;
  comparisons(samples, "equal", equal);
  comparisons(samples, "not_equal", not_equal);
  comparisons(samples, "less", less);
  comparisons(samples, "less_equal", less_equal);
  comparisons(samples, "greater", greater);
  comparisons(samples, "greater_equal", greater_equal);
  connectives(samples, "logical_and", logical_and);
  connectives(samples, "logical_or", logical_or);
  samples.push_back(
      {"logical_not", "[2,3]", {coins(23, {2, 3})}, [](const List& x) { return List{logical_not(x[0])}; }});
  samples.push_back(
      {"logical_not", "empty", {coins(23, {0, 3})}, [](const List& x) { return List{logical_not(x[0])}; }});
  samples.push_back({"logical_not", "transposed", {transpose(coins(23, {2, 3}))}, [](const List& x) {
                       return List{logical_not(x[0])};
                     }});
  selections(samples);
  casts(samples);
  return samples;
}

}  // namespace capstan::test
