// Tests of the gradient check on wrong rules: the ways in which rules go wrong must each be caught, and the sentence must say
// where; by EXPECT_GRADIENTS too.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck_gtest.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/makers.h"
#include "support/wrong_ops.h"

namespace capstan {
namespace {

using namespace test::wrong;
using test::random;
using test::plain::square;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

using List = std::vector<Tensor>;

// ---- wrong rules fail ------------------------------------------------------------------------------------------------

TEST(Gradcheck, CatchesARuleOffByATenthOfAPercent) {
  const GradcheckReport report =
      gradcheck([](const List& x) -> List { return {record(Product(1.001), x[0], x[1])[0]}; },
                {random(1, {2, 3}), random(2, {2, 3})}, {.label = "product [2, 3]"});
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(
      report.failure,
      MatchesRegex("product \\[2, 3\\]: order 1, cotangent on output 0: the derivative by .* at \\[[01], [012]\\] "
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

TEST(Gradcheck, ReportsTheLowestFailingOrderHoweverWrongTheOther) {
  const GradcheckReport report = gradcheck(
      [](const List& x) -> List {
        return {record(Product(1.001), x[0], x[1])[0], record(Cube(true), x[0])[0]};
      },
      {tensor({2}, DType::f64), tensor({0.25}, DType::f64)});
  EXPECT_GT(report.worst_second_order, 100 * report.worst_first_order);
  EXPECT_THAT(report.failure, StartsWith("f: order 1, cotangent on "));
  EXPECT_THAT(report.failure, HasSubstr("the derivative by input 0 at [0] must equal"));
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

// ---- names and the GoogleTest expectation ------------------------------------------------------------------------------

TEST(Gradcheck, NamesInputsAsItIsTold) {
  const auto f = [](const List& x) -> List { return {record(Product(1.001), x[1], x[0])[0]}; };
  const GradcheckReport report =
      gradcheck(f, {random(1, {2}), random(2, {2})}, {.order = 1, .names = {"gain", "blocks.0.weight"}});
  EXPECT_THAT(report.failure, StartsWith("f: order 1, cotangent on output 0: the derivative by blocks.0.weight at ["));
}

TEST(ExpectGradients, PassesRightRules) {
  const auto cube = [](const List& x) { return record(Cube{}, x[0])[0]; };  // a tensor …
  EXPECT_GRADIENTS(cube, {random(1, {3})});
  EXPECT_GRADIENTS([](const List& x) -> List { return {record(Product{}, x[0], x[1])[0]}; },  // … or a list
                   {random(1, {2}), random(2, {2})}, {.order = 1, .label = "product"});
  if (cube({random(1, {3})}).defined())
    EXPECT_GRADIENTS(cube, {random(1, {3})}) << ": is one statement";
  else
    FAIL();
}

TEST(ExpectGradients, FailsOnWrongRulesWithTheSentence) {
  const auto cube = [](const List& x) { return record(Cube(true), x[0])[0]; };
  EXPECT_NONFATAL_FAILURE(EXPECT_GRADIENTS(cube, {random(1, {3})}, {.label = "cube"}),
                          "cube: order 2, cotangent on output 0: the derivative by input 0 at [");
  EXPECT_NONFATAL_FAILURE(EXPECT_GRADIENTS(cube, {random(1, {3})}) << ": case 3", " is allowed: case 3");
  EXPECT_GRADIENTS(cube, {random(1, {3})}, {.order = 1});
  EXPECT_NONFATAL_FAILURE(
      EXPECT_GRADIENTS([](const List& x) { return record(Product(1.001), x[0], x[0])[0]; }, {random(1, {3})}),
      "must equal its difference quotient; got ");
}

TEST(ExpectGradients, FailsOnWhatCannotBeChecked) {
  const auto f = [](const List& x) { return square(x[0]); };
  EXPECT_NONFATAL_FAILURE(EXPECT_GRADIENTS(f, {ones({3})}),
                          "gradcheck: inputs must be f64, because differences of f32 values drown in rounding; got f32 "
                          "[3] as input 0; cast it to f64");
}

}  // namespace
}  // namespace capstan
