// Tests of the gradient check itself: rules that are wrong in the ways in which rules go wrong must each be caught, and
// right ones must pass far below the tolerance.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/op.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::plain::add;
using test::plain::fill;
using test::plain::matmul;
using test::plain::mul;
using test::plain::numbers;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using test::plain::transpose;
using test::plain::write;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

using List = std::vector<Tensor>;

Tensor random(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }

void expect_exact(const GradcheckReport& report) {
  EXPECT_TRUE(report.passed) << report.failure;
  EXPECT_EQ(report.failure, "");
  EXPECT_LE(report.worst_first_order, 1e-10);
  EXPECT_LE(report.worst_second_order, 1e-10);
  EXPECT_GT(report.entries, 0);
}

std::string error_of(GradcheckFunction f, const List& inputs, GradcheckOptions options = {}) {
  try {
    gradcheck(f, inputs, options);
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

// ---- ops whose rules can be made wrong -------------------------------------------------------------------------------

/// a · b; the rule is right only if all switches are.
struct Product final : Op {
  static constexpr std::string_view name = "product";
  double factor;        // of da
  bool forgets_second;  // no db
  explicit Product(double factor_ = 1, bool forgets_second_ = false)
      : factor(factor_), forgets_second(forgets_second_) {}
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> y = numbers(in[0]);
    const std::vector<double> b = numbers(in[1]);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= b[i];
    write(out[0], y);
  }
  Tensors vjp(const Call& call) const override {
    const Tensor& dy = call.dout(0);
    return {scale(mul(dy, call.in(1)), factor), forgets_second ? Tensor() : mul(dy, call.in(0))};
  }
};

/// A B; wrong: dA = dY B, which has the right shape if B is square.
struct Matmul final : Op {
  static constexpr std::string_view name = "matmul";
  bool transposes;
  explicit Matmul(bool transposes_ = true) : transposes(transposes_) {}
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1); }
  Types infer(Inputs in) const override { return {Type{Shape{in[0].size(0), in[1].size(1)}, DType::f64}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(matmul(in[0].detach(), in[1].detach()))); }
  Tensors vjp(const Call& call) const override {
    const Tensor& dy = call.dout(0);
    return {matmul(dy, transposes ? transpose(call.in(1)) : call.in(1)), matmul(transpose(call.in(0)), dy)};
  }
};

/// x³; wrong: the rule multiplies by 3x² as a constant, which the first order cannot see.
struct Cube final : Op {
  static constexpr std::string_view name = "cube";
  bool constant_slope;
  explicit Cube(bool constant_slope_ = false) : constant_slope(constant_slope_) {}
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> x = numbers(in[0]);
    for (double& element : x) element = element * element * element;
    write(out[0], x);
  }
  Tensors vjp(const Call& call) const override {
    const Tensor slope = scale(square(call.in(0)), 3);
    return {mul(call.dout(0), constant_slope ? slope.detach() : slope)};
  }
};

/// x [N, C] → y = (x − mean) r and the hidden r = 1/√(var + ε) [N, 1].
struct LayerNorm final : Op {
  static constexpr std::string_view name = "layer_norm";
  bool mean_terms, hidden_term;
  explicit LayerNorm(bool mean_terms_ = true, bool hidden_term_ = true)
      : mean_terms(mean_terms_), hidden_term(hidden_term_) {}
  Reads reads(Wanted) const override { return Reads::out(0) | Reads::out(1); }
  Types infer(Inputs in) const override {
    return {Type{in[0].shape(), DType::f64}, Type{Shape{in[0].size(0), 1}, DType::f64}};
  }
  void eval(Inputs in, Outputs out) const override {
    const auto rows = static_cast<std::size_t>(in[0].size(0)), width = static_cast<std::size_t>(in[0].size(1));
    std::vector<double> y = numbers(in[0]), r(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < width; ++c) mean += y[row * width + c] / static_cast<double>(width);
      for (std::size_t c = 0; c < width; ++c)
        variance += std::pow(y[row * width + c] - mean, 2) / static_cast<double>(width);
      r[row] = 1 / std::sqrt(variance + 1e-5);
      for (std::size_t c = 0; c < width; ++c) y[row * width + c] = (y[row * width + c] - mean) * r[row];
    }
    write(out[0], y);
    write(out[1], r);
  }
  // dx = r (dy − mean(dy) − y mean(dy y)) − dr r² y / C
  Tensors vjp(const Call& call) const override {
    const Tensor &y = call.out(0), &dy = call.dout(0);
    const Index width = y.size(1);
    const Tensor means = full(Shape{width, width}, 1.0 / static_cast<double>(width), DType::f64);
    const Tensor row = ones(Shape{1, width}, DType::f64);
    const Tensor r = matmul(call.out(1), row), dr = matmul(call.dout(1), row);
    Tensor dx = mul(r, dy);
    if (mean_terms) {
      const Tensor both = add(matmul(dy, means), mul(y, matmul(mul(dy, y), means)));
      dx = add(dx, scale(mul(r, both), -1));
    }
    if (hidden_term) dx = add(dx, scale(mul(mul(dr, square(r)), y), -1.0 / static_cast<double>(width)));
    return {dx};
  }
};

/// Square whose rule walks memory instead of logical elements if it is wrong.
struct Strided final : Op {
  static constexpr std::string_view name = "strided";
  bool walks_memory;
  explicit Strided(bool walks_memory_ = false) : walks_memory(walks_memory_) {}
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(square(in[0].detach()))); }
  Tensors vjp(const Call& call) const override {
    Tensor x = call.in(0);
    if (walks_memory) x = detail::Access::alias(x, Layout(x.shape()));
    return {scale(mul(call.dout(0), x), 2)};
  }
};

/// x where keep, else 0; wrong: the dropped elements get a gradient that no difference could show.
struct Select final : Op {
  static constexpr std::string_view name = "select";
  std::vector<double> keep;
  double leak = 0;  // gradient of dropped elements: leak · dy
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> x = numbers(in[0]);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = keep[i] != 0 ? x[i] : 0;
    write(out[0], x);
  }
  Tensors vjp(const Call& call) const override {
    std::vector<double> factor = keep;
    for (double& element : factor)
      if (element == 0) element = leak;
    return {mul(call.dout(0), tensor(factor, call.in_shape(0)))};
  }
};

/// x; wrong: its rule cuts the cotangent off its graph.
struct Frozen final : Op {
  static constexpr std::string_view name = "frozen";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0])); }
  Tensors vjp(const Call& call) const override { return {call.dout(0).detach()}; }
};

/// x; wrong: a gradient of NaN.
struct Broken final : Op {
  static constexpr std::string_view name = "broken";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0])); }
  Tensors vjp(const Call& call) const override {
    return {scale(call.dout(0), std::numeric_limits<double>::quiet_NaN())};
  }
};

/// (x₁, 0); wrong: its gradient has 1e-200 (x₂ − x₂) added to it, whose derivative comes out as 1e-200.
struct Leaky final : Op {
  static constexpr std::string_view name = "leaky";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], {numbers(in[0])[0], 0}); }
  Tensors vjp(const Call& call) const override {
    const Tensor& x = call.in(0);
    const Tensor keep = tensor({1, 0}, DType::f64), drop = tensor({0, 1e-200}, DType::f64);
    const Tensor nothing = mul(drop, add(x, scale(x.detach(), -1)));
    return {add(mul(call.dout(0), keep), nothing)};
  }
};

// ---- right rules pass ------------------------------------------------------------------------------------------------

TEST(Gradcheck, RightRulesPassWithErrorsFarBelowTheTolerance) {
  expect_exact(gradcheck([](const List& x) -> List { return {record(Product{}, x[0], x[1])[0]}; },
                         {random(1, {2, 3}), random(2, {2, 3})}));
  expect_exact(
      gradcheck([](const List& x) -> List { return {record(Product{}, x[0], x[0])[0]}; }, {random(1, {2, 3})}));
  expect_exact(gradcheck([](const List& x) -> List { return {record(Matmul{}, x[0], x[1])[0]}; },
                         {random(1, {3, 3}), random(2, {3, 3})}));
  expect_exact(gradcheck([](const List& x) -> List { return {record(Cube{}, x[0])[0]}; }, {random(1, {4})}));
  expect_exact(gradcheck([](const List& x) -> List { return {test::plain::tanh(x[0])}; }, {random(1, {4})}));
  expect_exact(gradcheck([](const List& x) -> List { return {sum(square(x[0]))}; }, {random(1, {2, 2})}));
}

TEST(Gradcheck, ChecksEveryOutputAloneAndAllTogetherAtBothOrders) {
  const GradcheckReport report = gradcheck(
      [](const List& x) -> List {
        const Tensors y = record(LayerNorm{}, x[0]);
        return {y[0], y[1]};
      },
      {random(3, {2, 4})});
  expect_exact(report);
  // Order 1: 8 inputs × 3 sets. Order 2: 8 inputs × 3 sets, and cotangents of 8, 2 and 10 elements.
  EXPECT_EQ(report.entries, 24 + 24 + 20);
  EXPECT_GT(report.worst_first_order, 0);
  EXPECT_GT(report.worst_second_order, 0);
}

TEST(Gradcheck, OrderOneTakesNoSecondDifferences) {
  const GradcheckReport report =
      gradcheck([](const List& x) -> List { return {record(Cube(true), x[0])[0]}; }, {random(1, {4})}, {.order = 1});
  EXPECT_TRUE(report);
  EXPECT_EQ(report.entries, 4);
  EXPECT_EQ(report.worst_second_order, 0);
}

TEST(Gradcheck, AnInputWithoutInfluenceHasGradientZero) {
  expect_exact(gradcheck([](const List& x) -> List { return {square(x[0])}; }, {random(1, {2}), random(2, {3})}));
  // Nor need any output depend on any input.
  expect_exact(gradcheck([](const List&) -> List { return {ones({2}, DType::f64)}; }, {random(1, {2})}));
}

TEST(Gradcheck, ADependenceThatIsNotRecordedIsCaught) {
  const GradcheckReport report =
      gradcheck([](const List& x) -> List { return {square(x[0].detach())}; }, {random(1, {2})});
  EXPECT_FALSE(report);
  EXPECT_THAT(report.failure, HasSubstr("order 1, cotangent on output 0: the derivative by input 0 at ["));
  EXPECT_THAT(report.failure, HasSubstr("got 0 by the rule and "));
}

TEST(Gradcheck, IdsAndMasksAreConstants) {
  const Tensor mask = tensor({1, 0}, DType::boolean), ids = arange(3);
  const GradcheckReport report = gradcheck(
      [&](const List& x) -> List {
        EXPECT_EQ(x[0].dtype(), DType::boolean);
        EXPECT_EQ(x[1].dtype(), DType::i32);
        return {square(x[2]), ids};
      },
      {mask, ids, random(1, {2})});
  expect_exact(report);
}

TEST(Gradcheck, EmptyInputsAndOutputsPass) {
  const GradcheckReport report = gradcheck([](const List& x) -> List { return {square(x[0])}; }, {random(1, {0, 3})});
  EXPECT_TRUE(report) << report.failure;
  EXPECT_EQ(report.entries, 0);
}

TEST(Gradcheck, LargeInputsAreVariedInProportion) {
  const List inputs = {tensor({1e4, -3e4}, DType::f64)};
  expect_exact(gradcheck([](const List& x) -> List { return {scale(square(x[0]), 1e-8)}; }, inputs));
}

// ---- wrong rules fail ------------------------------------------------------------------------------------------------

TEST(Gradcheck, CatchesARuleOffByATenthOfAPercent) {
  const GradcheckReport report =
      gradcheck([](const List& x) -> List { return {record(Product(1.001), x[0], x[1])[0]}; },
                {random(1, {2, 3}), random(2, {2, 3})}, {.label = "product [2, 3]"});
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(
      report.failure,
      MatchesRegex("product \\[2, 3\\]: order [12], cotangent on output 0: the derivative by .* at \\[[01], [012]\\] "
                   "must equal its difference quotient; got [-0-9.e]+ by the rule and [-0-9.e]+ by differences, "
                   "[0-9.e-]+ apart where [0-9.e-]+ is allowed"));
  EXPECT_GT(report.worst_first_order, 1e-5);
}

TEST(Gradcheck, TheSentenceNamesLabelOrderInputIndexBothValuesAndTolerance) {
  // The only output is 2 x₁, its cotangent u: differences give 2u, the rule 2.002 u.
  const Key key{.seed = 5};
  const double u = normal(key.derive(0), {1}, 0, 1, DType::f64).item();
  const GradcheckReport report =
      gradcheck([](const List& x) -> List { return {record(Product(1.001), x[1], x[0])[0]}; },
                {tensor({2}, DType::f64), tensor({0.25}, DType::f64)}, {.order = 1, .key = key, .label = "twice"});
  EXPECT_EQ(
      report.failure,
      fmt::format("twice: order 1, cotangent on output 0: the derivative by input 1 at [0] must equal its difference "
                  "quotient; got {:.12g} by the rule and {:.12g} by differences, {:.3g} apart where {:.3g} is allowed",
                  2.002 * u, 2 * u, std::abs(0.002 * u), 1e-9 * std::max(1.0, std::abs(2 * u))));
}

TEST(Gradcheck, CatchesATransposedRuleOnASquareMatrix) {
  const GradcheckReport report =
      gradcheck([](const List& x) -> List { return {record(Matmul(false), x[0], x[1])[0]}; },
                {random(1, {3, 3}), random(2, {3, 3})}, {.order = 1, .label = "matmul [3, 3]"});
  EXPECT_FALSE(report);
  EXPECT_THAT(report.failure,
              StartsWith("matmul [3, 3]: order 1, cotangent on output 0: the derivative by input 0 at ["));
}

TEST(Gradcheck, CatchesAMissingTermForTheSameInputTwice) {
  const auto same = [](const List& x) -> List { return {record(Product(1, true), x[0], x[0])[0]}; };
  const GradcheckReport report = gradcheck(same, {random(1, {2})}, {.order = 1, .label = "f(x, x)"});
  EXPECT_FALSE(report);
  EXPECT_THAT(report.failure, StartsWith("f(x, x): order 1, cotangent on output 0: the derivative by input 0 at ["));
}

TEST(Gradcheck, CatchesASecondOrderThatIsWrongAlone) {
  const auto cube = [](const List& x) -> List { return {record(Cube(true), x[0])[0]}; };
  EXPECT_TRUE(gradcheck(cube, {random(1, {3})}, {.order = 1}).passed);
  const GradcheckReport report = gradcheck(cube, {random(1, {3})}, {.label = "cube"});
  EXPECT_FALSE(report);
  EXPECT_LE(report.worst_first_order, 1e-10);
  EXPECT_GT(report.worst_second_order, 1e-3);
  EXPECT_THAT(report.failure, StartsWith("cube: order 2, cotangent on output 0: the derivative by input 0 at ["));
}

TEST(Gradcheck, CatchesACotangentThatIsTreatedAsAConstant) {
  const GradcheckReport report = gradcheck([](const List& x) -> List { return {record(Frozen{}, x[0])[0]}; },
                                           {random(1, {2})}, {.label = "frozen"});
  EXPECT_LE(report.worst_first_order, 1e-10);
  EXPECT_THAT(report.failure,
              StartsWith("frozen: order 2, cotangent on output 0: the derivative by the cotangent of output 0 at ["));
}

TEST(Gradcheck, CatchesAnIgnoredHiddenOutput) {
  const auto norm = [](const List& x) -> List {
    const Tensors y = record(LayerNorm(true, false), x[0]);
    return {y[0], y[1]};
  };
  const GradcheckReport report = gradcheck(norm, {random(3, {2, 4})}, {.order = 1, .label = "hidden"});
  EXPECT_FALSE(report);
  EXPECT_THAT(report.failure,
              MatchesRegex("hidden: order 1, cotangent on (output 1|all outputs): the derivative by input 0 .*"));
}

TEST(Gradcheck, CatchesALayerNormRuleWithoutItsMeanTerms) {
  const auto norm = [](const List& x) -> List { return {record(LayerNorm(false), x[0])[0]}; };
  const GradcheckReport report = gradcheck(norm, {random(3, {2, 4})}, {.order = 1, .label = "layer_norm"});
  EXPECT_FALSE(report);
  EXPECT_THAT(report.failure, StartsWith("layer_norm: order 1, cotangent on output 0: the derivative by input 0 at ["));
}

TEST(Gradcheck, ReportsAGradientThatIsNotANumber) {
  const GradcheckReport report =
      gradcheck([](const List& x) -> List { return {record(Broken{}, x[0])[0]}; }, {random(1, {2})}, {.order = 1});
  EXPECT_FALSE(report);
  EXPECT_EQ(report.worst_first_order, std::numeric_limits<double>::infinity());
  EXPECT_THAT(report.failure, HasSubstr("got nan by the rule"));
}

// ---- memory layouts --------------------------------------------------------------------------------------------------

TEST(Gradcheck, PerturbsLogicalElementsAndKeepsTheLayout) {
  const Tensor x = transpose(random(1, {2, 3}));
  int calls = 0;
  const GradcheckReport report = gradcheck(
      [&](const List& in) -> List {
        ++calls;
        EXPECT_EQ(in[0].layout(), x.layout());
        return {square(in[0])};
      },
      {x});
  expect_exact(report);
  EXPECT_GT(calls, 6 * 4);
  EXPECT_EQ(x.to_doubles(), transpose(random(1, {2, 3})).to_doubles());
}

TEST(Gradcheck, CatchesARuleThatWalksMemoryOnStridedInputs) {
  const auto f = [](const List& x) -> List { return {record(Strided(true), x[0])[0]}; };
  EXPECT_TRUE(gradcheck(f, {random(1, {2, 3})}, {.order = 1}).passed);
  EXPECT_FALSE(gradcheck(f, {transpose(random(1, {3, 2}))}, {.order = 1}).passed);
  expect_exact(
      gradcheck([](const List& x) -> List { return {record(Strided{}, x[0])[0]}; }, {transpose(random(1, {3, 2}))}));
}

TEST(Gradcheck, ElementsThatShareMemoryAreStillVariedOneByOne) {
  const Tensor shared = fill(tensor(0.7, DType::f64), {2, 3});
  ASSERT_EQ(shared.layout().stride(0), 0);
  const GradcheckReport report = gradcheck([](const List& x) -> List { return {square(x[0])}; }, {shared});
  expect_exact(report);
}

TEST(Gradcheck, SlicesWithAnOffsetAndAStepAreVariedInPlace) {
  const Tensor wide = random(1, {3, 8});
  const Tensor x = detail::Access::alias(wide, wide.layout().sliced(1, 1, 3, 2).sliced(0, 1, 2));
  expect_exact(gradcheck([](const List& in) -> List { return {record(Cube{}, in[0])[0]}; }, {x}));
}

// ---- entries that differences cannot see ------------------------------------------------------------------------------

TEST(Gradcheck, DeclaredZerosAreAssertedAndTakeNoDifference) {
  Tensor x = tensor({0.5, std::numeric_limits<double>::quiet_NaN(), -1}, DType::f64);
  const auto f = [](const List& in) -> List {
    Select op;
    op.keep = {1, 0, 1};
    return {record(op, in[0])[0]};
  };
  expect_exact(gradcheck(f, {x}, {.exactly_zero = {tensor({0, 1, 0}, DType::boolean)}}));
}

TEST(Gradcheck, CatchesATinyGradientWhereZeroIsDeclared) {
  const auto f = [](const List& in) -> List {
    Select op;
    op.keep = {1, 0, 1};
    op.leak = 1e-300;
    return {record(op, in[0])[0]};
  };
  const List zero = {tensor({0, 1, 0}, DType::boolean)};
  EXPECT_TRUE(gradcheck(f, {random(1, {3})}).passed);  // differences alone are blind to it
  const GradcheckReport report = gradcheck(f, {random(1, {3})}, {.order = 1, .label = "select", .exactly_zero = zero});
  EXPECT_FALSE(report);
  EXPECT_THAT(report.failure,
              MatchesRegex("select: order 1, cotangent on output 0: the derivative by input 0 at \\[1\\] must be "
                           "exactly 0; got [-0-9.]+e-30[0-9] by the rule"));
}

TEST(Gradcheck, CatchesATinySecondDerivativeWhereZeroIsDeclared) {
  const auto f = [](const List& in) -> List { return {record(Leaky{}, in[0])[0]}; };
  const List zero = {tensor({0, 1}, DType::boolean)};
  EXPECT_TRUE(gradcheck(f, {random(1, {2})}, {.order = 1, .exactly_zero = zero}).passed);
  const GradcheckReport report = gradcheck(f, {random(1, {2})}, {.label = "leaky", .exactly_zero = zero});
  EXPECT_THAT(report.failure,
              MatchesRegex("leaky: order 2, cotangent on output 0: the derivative by input 0 at \\[1\\] must be "
                           "exactly 0; got [-0-9.]+e-[0-9]+ by the rule"));
}

// ---- what cannot be checked is refused --------------------------------------------------------------------------------

TEST(Gradcheck, RefusesF32WithTheReason) {
  const auto f = [](const List& x) -> List { return {x[0]}; };
  EXPECT_EQ(
      error_of(f, {ones({2, 3}, DType::f32)}),
      "gradcheck: inputs must be f64, because differences of f32 values drown in rounding; got f32 [2, 3] as input 0; "
      "cast it to f64");
  EXPECT_EQ(
      error_of([](const List&) -> List { return {ones({2}, DType::f32)}; }, {random(1, {2})}),
      "gradcheck: outputs must be f64, because differences of f32 values drown in rounding; got f32 [2] as output 0; "
      "compute in f64");
}

TEST(Gradcheck, RefusesWhatHasNothingToVary) {
  const auto f = [](const List& x) -> List { return x; };
  EXPECT_EQ(error_of(f, {arange(3)}), "gradcheck: at least one input must be f64 to be varied; got none among 1");
  EXPECT_EQ(error_of(f, {Tensor()}),
            "gradcheck: inputs must hold values; got an empty handle as input 0; assign a tensor to it first");
  EXPECT_EQ(error_of([](const List&) -> List { return {arange(2)}; }, {random(1, {2})}),
            "gradcheck: f must return at least one f64 output; got none among 1");
}

TEST(Gradcheck, RefusesOutputsThatAreNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of(
                [&](const List& x) -> List {
                  return {x[0], mul(x[0], tensor({{1, inf}}, DType::f64))};
                },
                {tensor({{1, 2}}, DType::f64)}),
            "gradcheck: outputs must be finite where differences are taken; got inf at [0, 1] of output 1; check at "
            "other inputs");
}

TEST(Gradcheck, RefusesOptionsThatMeanNothing) {
  const auto f = [](const List& x) -> List { return {x[0]}; };
  const List x = {random(1, {2})};
  EXPECT_EQ(error_of(f, x, {.order = 3}), "gradcheck: the order must be 1 or 2; got 3");
  EXPECT_EQ(error_of(f, x, {.tolerance = 0}), "gradcheck: tolerance and step must be positive; got 0 and 0.001");
  EXPECT_EQ(error_of(f, x, {.exactly_zero = {Tensor(), Tensor()}}),
            "gradcheck: exactly_zero must have an entry for each of 1 inputs, or none at all; got 2");
  EXPECT_EQ(error_of(f, x, {.exactly_zero = {ones({2}, DType::f64)}}),
            "gradcheck: exactly_zero[0] must be bool [2] like its input; got f64 [2]");
}

TEST(Gradcheck, RefusesAFunctionWhoseOutputsChangeTheirShape) {
  int calls = 0;
  EXPECT_EQ(
      error_of(
          [&](const List& x) -> List {
            return ++calls > 1 ? List{x[0], x[0]} : x;
          },
          {random(1, {2})}),
      "gradcheck: f must return outputs of the same number, shapes and dtypes each time; got others in another call");
}

}  // namespace
}  // namespace capstan
