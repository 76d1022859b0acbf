// Tests of nn/gradcheck.h: a wrong rule inside a module is found, and the parameter that it concerns is named.
#include <capstan/nn/nn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/makers.h"
#include "support/wrong_ops.h"

namespace capstan::nn {
namespace {

using test::error_of;
using test::random;
using test::wrong::Product;
using ::testing::MatchesRegex;

/// y = x W + g ⊙ x; with a `factor` of 1 every rule in it is right.
struct Scaled {
  Linear linear;
  std::vector<Tensor> gains;
  double factor = 1;
  Tensor operator()(const Tensor& x) const {
    return linear(x) + record(Product(factor), broadcast_to(gains[1], x.shape()), x)[0] * gains[0];
  }
  static void fields(auto& self, auto& f) {
    f("linear", self.linear);
    f("gains", self.gains);
  }
};

Scaled scaled(double factor, DType dtype = DType::f64) {
  Init init{.seed = 1, .dtype = dtype};
  return {Linear(init, {.in = 3, .out = 3}), {cast(random(2, {3}), dtype), cast(random(3, {1, 3}), dtype)}, factor};
}

TEST(GradcheckModule, ChecksEveryParameter) {
  const Tensor x = random(4, {2, 3});
  const auto report = gradcheck_module(scaled(1), [&](const Scaled& m) { return sum(m(x) * m(x)); }, {.order = 1});
  EXPECT_TRUE(report) << report.failure;
  EXPECT_EQ(report.entries, 9 + 3 + 3 + 3);
}

TEST(GradcheckModule, ReturnsOfListsAndInputsAreCheckedToo) {
  const auto report = gradcheck_module(scaled(1), {random(4, {2, 3})},
                                       [](const Scaled& m, const std::vector<Tensor>& in) -> std::vector<Tensor> {
                                         return {m(in[0]), tanh(in[0])};
                                       },
                                       {.order = 1});
  EXPECT_TRUE(report) << report.failure;
  EXPECT_EQ(report.entries, (18 + 6) * 3);
}

TEST(GradcheckModule, PassesAFreshGptByDefault) {
  Init init{.seed = 3, .dtype = DType::f64};
  const Gpt model(init, {.vocab = 5, .context = 4, .width = 4, .heads = 2, .blocks = 1});
  const Tensor ids = tensor({{1, 2, 4}}, DType::i32), targets = tensor({{2, 4, 0}}, DType::i32);
  const auto report = gradcheck_module(model, [&](const Gpt& m) { return cross_entropy(m(ids), targets); });
  EXPECT_TRUE(report.passed) << report.failure;
}

TEST(GradcheckModule, NamesTheParameterWhoseRuleIsWrong) {
  const Tensor x = random(4, {2, 3});
  const auto loss = [&](const Scaled& m) { return sum(m(x)); };
  const auto report = gradcheck_module(scaled(1.001), loss, {.order = 1, .label = "scaled"});
  EXPECT_FALSE(report);
  EXPECT_THAT(
      report.failure,
      MatchesRegex("scaled: order 1, cotangent on output 0: the derivative by gains.1 at \\[0, [012]\\] must equal "
                   "its difference quotient; got .*"));
}

TEST(GradcheckModule, NamesAnInputWhoseRuleIsWrong) {
  const auto report = gradcheck_module(
      Linear(*std::make_unique<Init>(Init{.dtype = DType::f64}), {.in = 2, .out = 2}), {random(4, {2, 2})},
      [](const Linear& m, const std::vector<Tensor>& in) { return m(record(Product(1.001), in[0], in[0])[0]); },
      {.order = 1});
  EXPECT_THAT(report.failure, MatchesRegex("f: order 1, cotangent on output 0: the derivative by input 0 at .*"));
}

TEST(GradcheckModule, RefusesF32WithTheNameAndTheRemedy) {
  EXPECT_EQ(
      error_of([] { gradcheck_module(scaled(1, DType::f32), [](const Scaled& m) { return sum(m.gains[0]); }); }),
      "gradcheck_module: parameters must be f64, because differences of f32 values drown in rounding; got f32 [3, 3] "
      "for linear.weight; make the module with Init::dtype = DType::f64");
}

}  // namespace
}  // namespace capstan::nn
