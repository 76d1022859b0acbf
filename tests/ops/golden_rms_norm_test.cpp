// RMS norm against the reference results of tests/golden: its cases of layer_norm.json and of highorder.json.
#include <capstan/ops/elementwise.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/rms_norm.h>

#include "support/check_golden.h"

namespace capstan::test {
namespace {

using GoldenRmsNorm = GoldenBoth;
INSTANTIATE_TEST_SUITE_P(Dtypes, GoldenRmsNorm, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

const std::vector<Looser> looser = {
    {"rms_norm_length_1", "gradient of x", 0, 4e-6,
     "one element normalises to ±1 whatever it is: dx is eps/x² of its two terms, which are about 14"},
};

Tensor call(const GoldenCase& golden, const Named& in) {
  return rms_norm(in.at("x"), in.contains("weight") ? in.at("weight") : Tensor(), golden.options["eps"]);
}

TEST_P(GoldenRmsNorm, ValuesAndGradients) {
  int ran = 0;
  for (const GoldenCase& golden : golden_cases("layer_norm")) {
    if (golden.op() != "rms_norm") continue;
    const std::size_t compared = check_golden(
        golden, dtype(),
        [](const GoldenCase& g, const Named& in) {
          return Named{{"out", call(g, in)}};
        },
        looser);
    EXPECT_EQ(compared, golden.inputs.contains("weight") ? 2U : 1U) << golden.name;
    ++ran;
  }
  EXPECT_EQ(ran, 18);
}

TEST_P(GoldenRmsNorm, HessianVectorProducts) {
  int ran = 0;
  for (const GoldenCase& golden : golden_cases("highorder")) {
    if (golden.op() != "rms_norm") continue;
    ASSERT_EQ(golden.options["loss"], "sum(c*y)");
    Tape tape;
    Named in;
    for (const auto& [name, value] : golden.inputs) in[name] = in_dtype(value, dtype());
    for (const auto& [name, vector] : golden.vectors) in[name] = tape.watch(in.at(name));
    const Tensor loss = sum(in.at("c") * call(golden, in));
    expect_golden(golden, "loss", loss, golden.outputs.at("loss"), dtype());
    const Gradients first = tape.backward(loss, {.create_graph = true});
    std::vector<Root> along;
    for (const auto& [name, vector] : golden.vectors) {
      const Tensor gradient = first.of(in.at(name));
      expect_golden(golden, "gradient of " + name, gradient, golden.gradients.at(name), dtype());
      along.push_back({gradient, in_dtype(vector, dtype())});
    }
    const Gradients second = tape.backward(along);
    for (const auto& [name, product] : golden.hessian_vector_products)
      expect_golden(golden, "Hessian-vector product of " + name, second.of(in.at(name)), product, dtype());
    EXPECT_EQ(golden.hessian_vector_products.size(), 2U);
    ++ran;
  }
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace capstan::test
