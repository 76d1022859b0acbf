// Samples of ops/elementwise.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>

#include <limits>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(std::uint64_t seed, const Shape& shape, double low, double high) {
  return uniform(Key{.seed = seed}, shape, low, high, DType::f64);
}

/// The cases that matter to every op of two operands; `low` and `high` keep b away from singularities.
void pairs(Samples& samples, const char* op, Tensor (*f)(const Tensor&, const Tensor&), double low, double high) {
  const auto a = [](const Shape& shape) { return draw(11, shape, -2, 2); };
  const auto b = [=](const Shape& shape) { return draw(12, shape, low, high); };
  const auto both = [f](const List& x) { return List{f(x[0], x[1])}; };
  samples.push_back({op, "[2,3] both", {a({2, 3}), b({2, 3})}, both});
  samples.push_back({op, "scalars", {a({}), b({})}, both});
  samples.push_back({op, "[2,1] with [3]", {a({2, 1}), b({3})}, both});
  samples.push_back({op, "[] with [2,3]", {a({}), b({2, 3})}, both});
  samples.push_back({op, "[2,3] with []", {a({2, 3}), b({})}, both});
  samples.push_back({op, "[1] with [1,1,2]", {a({1}), b({1, 1, 2})}, both});
  samples.push_back({op, "[2,1,3] with [4,1]", {a({2, 1, 3}), b({4, 1})}, both});
  samples.push_back({op, "transposed with sliced", {transpose(a({3, 2})), slice(b({2, 7}), 1, 1, 7, 2)}, both});
  samples.push_back({op, "rank 5, permuted", {permute(a({2, 1, 2, 1, 3}), {2, 1, 0, 3, 4}), b({2, 1, 2, 1})}, both});
  samples.push_back({op, "more elements than a short loop takes", {a({5, 7}), b({5, 7})}, both});
  samples.push_back({op, "empty [4,0] with [4,1]", {a({4, 0}), b({4, 1})}, both});
  samples.push_back({op, "f(x, x)", {b({4})}, [f](const List& x) { return List{f(x[0], x[0])}; }});
  samples.push_back(
      {op, "b constant", {a({4})}, [f, y = b({4})](const List& x) { return List{f(x[0], cast(y, x[0].dtype()))}; }});
  samples.push_back(
      {op, "a constant", {b({4})}, [f, y = a({4})](const List& x) { return List{f(cast(y, x[0].dtype()), x[0])}; }});
  samples.push_back({op, "views made inside", {a({2, 3}), b({3})}, [f](const List& x) {
                       return List{f(transpose(x[0]), broadcast_to(reshape(x[1], Shape{3, 1}), Shape{3, 2}))};
                     }});
}

/// The cases that matter to every function of one operand, with arguments in [low, high].
void singles(Samples& samples, const char* op, Tensor (*f)(const Tensor&), double low, double high) {
  const auto draw_x = [=](const Shape& shape) { return draw(13, shape, low, high); };
  const auto apply_to = [f](const List& x) { return List{f(x[0])}; };
  samples.push_back({op, "[5]", {draw_x({5})}, apply_to});
  samples.push_back({op, "scalar", {draw_x({})}, apply_to});
  samples.push_back({op, "[1,1]", {draw_x({1, 1})}, apply_to});
  samples.push_back({op, "transposed [3,2]", {transpose(draw_x({2, 3}))}, apply_to});
  samples.push_back({op, "every third of [2,7]", {slice(draw_x({2, 7}), 1, 0, 7, 3)}, apply_to});
  samples.push_back({op, "[3,9], a vector and a tail", {draw_x({3, 9})}, apply_to});
  samples.push_back({op, "empty [0,3]", {draw_x({0, 3})}, apply_to});
  samples.push_back({op, "stretched inside", {draw_x({3})}, [f](const List& x) {
                       return List{f(broadcast_to(x[0], Shape{2, 3}))};
                     }});
  samples.push_back({op, "twice", {draw_x({3})}, [f](const List& x) { return List{f(x[0]) * f(x[0])}; }});
}

void extremes(Samples& samples, const char* op, Tensor (*f)(const Tensor&), const NestedList& x) {
  samples.push_back({op, "extremes", {tensor(x, DType::f64)}, [f](const List& in) { return List{f(in[0])}; }});
}

/// Exponents with a way of their own, each for bases of the signs that it has.
void powers(Samples& samples) {
  const auto add = [&](const char* label, double exponent, double low, double high) {
    samples.push_back(
        {"pow", label, {draw(19, {2, 3}, low, high)}, [exponent](const List& x) { return List{pow(x[0], exponent)}; }});
  };
  add("exponent 0", 0, -2, 2);
  add("exponent 1", 1, -2, 2);
  add("exponent 2", 2, -2, 2);
  add("exponent 3", 3, -2, 2);
  add("exponent 4", 4, -2, 2);
  add("exponent 0.5", 0.5, 0.5, 4);
  add("exponent -1", -1, -2, -0.5);
  add("exponent -0.5", -0.5, 0.5, 4);
  add("exponent -2, negative bases", -2, -2, -0.5);
  for (const double exponent : {1.0, 2.0, 3.0, 5.0})
    samples.push_back({"pow",
                       "at 0, exponent " + std::to_string(static_cast<int>(exponent)),
                       {tensor({-1, 0, 1}, DType::f64)},
                       [exponent](const List& x) { return List{pow(x[0], exponent)}; }});
}

}  // namespace

Samples elementwise_samples() {
  Samples samples;
  pairs(samples, "add", add, -2, 2);
  pairs(samples, "sub", sub, -2, 2);
  pairs(samples, "mul", mul, -2, 2);
  pairs(samples, "div", div, 0.5, 2);
  samples.push_back({"div", "negative divisors", {draw(14, {4}, -2, 2), draw(15, {4}, -2, -0.5)}, [](const List& x) {
                       return List{x[0] / x[1]};
                     }});
  samples.push_back({"div", "by and of a number", {draw(16, {4}, 0.5, 2)}, [](const List& x) {
                       return List{x[0] / 3.0, 3.0 / x[0]};
                     }});

  pairs(samples, "minimum", minimum, -2, 2);
  pairs(samples, "maximum", maximum, -2, 2);

  singles(samples, "neg", neg, -2, 2);
  singles(
      samples, "scale", [](const Tensor& x) { return scale(x, -1.5, 0.25); }, -2, 2);
  singles(samples, "exp", exp, -2, 2);
  singles(samples, "log", log, 0.5, 4);
  singles(samples, "tanh", tanh, -2, 2);
  singles(samples, "sqrt", sqrt, 0.5, 4);
  singles(samples, "sin", sin, -4, 4);
  singles(samples, "cos", cos, -4, 4);
  singles(samples, "erf", erf, -2, 2);
  singles(samples, "erfc", erfc, -2, 2);
  singles(
      samples, "clamp", [](const Tensor& x) { return clamp(x, -3, 3); }, -2, 2);
  singles(samples, "abs", abs, 0.5, 2);
  singles(samples, "rsqrt", rsqrt, 0.5, 4);
  singles(samples, "sigmoid", sigmoid, -4, 4);
  singles(
      samples, "pow", [](const Tensor& x) { return pow(x, 2.5); }, 0.5, 2);
  powers(samples);

  samples.push_back({"scale", "shift alone", {draw(17, {3}, -2, 2)}, [](const List& x) { return List{1.0 + x[0]}; }});
  samples.push_back({"scale", "by zero", {draw(17, {3}, -2, 2)}, [](const List& x) { return List{x[0] * 0.0}; }});
  samples.push_back({"scale", "operators", {draw(18, {3}, -2, 2)}, [](const List& x) {
                       return List{x[0] - 2.0, 2.0 - x[0], 2.0 * x[0], x[0] * 0.5};
                     }});
  extremes(samples, "exp", exp, {-700, -40, 3});
  extremes(samples, "log", log, {0.75, 1, 1000, 1e9});
  extremes(samples, "tanh", tanh, {-400, -19, -3, 1e-5, 3, 19, 400});
  extremes(samples, "sqrt", sqrt, {0.75, 100, 1e6});
  extremes(samples, "sin", sin, {-7, 1e-5, 7});
  extremes(samples, "cos", cos, {-7, 1e-5, 7});
  extremes(samples, "erf", erf, {-30, -5, 1e-5, 5, 30});
  extremes(samples, "erfc", erfc, {-30, -5, 1e-5, 5, 20});
  extremes(samples, "abs", abs, {-1e6, -0.5, 0.5, 1e6});
  extremes(samples, "rsqrt", rsqrt, {0.75, 100, 1e6});
  extremes(samples, "sigmoid", sigmoid, {-700, -40, -19, 1e-5, 19, 40, 700});
  const Tensor around = tensor({{-7, -1.5, -0.5}, {0.25, 2.5, 9}}, DType::f64);
  samples.push_back(
      {"clamp", "below, within, above", {around}, [](const List& x) { return List{clamp(x[0], -1, 2)}; }});
  samples.push_back({"clamp", "one bound infinite", {around}, [](const List& x) {
                       return List{clamp(x[0], 0, std::numeric_limits<double>::infinity())};
                     }});
  samples.push_back({"clamp", "low = high", {around}, [](const List& x) { return List{clamp(x[0], 1, 1)}; }});
  return samples;
}

}  // namespace capstan::test
