// Tests of the gradient check on right rules, which must pass far below the tolerance, in any memory layout, and of what it
// refuses. Rules that are wrong: gradcheck_wrong_rules_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect.h"
#include "support/makers.h"
#include "support/wrong_ops.h"

namespace capstan {
namespace {

using namespace test::wrong;
using test::random;
using test::plain::fill;
using test::plain::mul;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using test::plain::transpose;
using ::testing::HasSubstr;

using List = std::vector<Tensor>;

std::string error_of(GradcheckFunction f, const List& inputs, GradcheckOptions options = {}) {
  return test::error_of([&] { gradcheck(f, inputs, options); });
}

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
  EXPECT_EQ(error_of(f, x, {.names = {"a", "b"}}),
            "gradcheck: names must have an entry for each of 1 inputs, or none at all; got 2");
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
