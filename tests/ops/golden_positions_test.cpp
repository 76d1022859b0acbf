// Sinusoids, rotary embedding and ALiBi against all reference results of tests/golden/rope_positions.json.
#include <capstan/ops/positions.h>
#include <capstan/ops/rotary.h>

#include "support/check_golden.h"

namespace capstan::test {
namespace {

using GoldenPositions = GoldenBoth;
INSTANTIATE_TEST_SUITE_P(Dtypes, GoldenPositions, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

TEST_P(GoldenPositions, Sinusoidal) {
  int ran = 0;
  for (const GoldenCase& golden : golden_cases("rope_positions")) {
    if (golden.op() != "sinusoidal") continue;
    check_golden(golden, dtype(), [&](const GoldenCase& g, const Named&) {
      const auto& o = g.options;
      return Named{
          {"table", sinusoidal_positions(o["length"], o["width"], {.start = o["start"], .base = o["base"]}, dtype())}};
    });
    ++ran;
  }
  EXPECT_EQ(ran, 3);
}

TEST_P(GoldenPositions, Rotary) {
  int ran = 0;
  for (const GoldenCase& golden : golden_cases("rope_positions")) {
    if (golden.op() != "rope") continue;
    const bool half_split = golden.options["layout"] == "half_split";
    const auto counted = [&](const GoldenCase& g, const Named& in) {
      const RotaryOptions options{.start = g.options["start"], .base = g.options["base"]};
      return Named{
          {"out", half_split ? rotary_half_split(in.at("x"), options) : rotary_adjacent_pairs(in.at("x"), options)}};
    };
    const auto placed = [&](const GoldenCase& g, const Named& in) {
      const double base = g.options["base"];
      return Named{{"out", half_split ? rotary_half_split(in.at("x"), in.at("positions"), base)
                                      : rotary_adjacent_pairs(in.at("x"), in.at("positions"), base)}};
    };
    EXPECT_EQ(check_golden(golden, dtype(), counted), 1U);
    EXPECT_EQ(check_golden(golden, dtype(), placed), 1U);
    ++ran;
  }
  EXPECT_EQ(ran, 12);
}

TEST_P(GoldenPositions, Alibi) {
  int ran = 0;
  for (const GoldenCase& golden : golden_cases("rope_positions")) {
    if (golden.op() != "alibi") continue;
    const Index heads = golden.options["heads"], queries = golden.options["queries"], keys = golden.options["keys"];
    const Tensor bias = alibi_bias(heads, queries, keys, dtype()).values;
    expect_golden(golden, "slopes", alibi_slopes(heads, dtype()), golden.outputs.at("slopes"), dtype());
    expect_golden(golden, "bias", bias, golden.outputs.at("bias"), dtype());
    const Tensor& paper = golden.outputs.at("signed_bias");  // the same where causal attention looks
    for (Index h = 0; h < heads; ++h)
      for (Index i = 0; i < queries; ++i)
        for (Index j = 0; j <= i + keys - queries; ++j)
          EXPECT_NEAR(bias.at({h, i, j}), paper.at({h, i, j}), dtype() == DType::f64 ? 1e-14 : 1e-6);
    ++ran;
  }
  EXPECT_EQ(ran, 5);
}

TEST(GoldenPositionsFile, HasNoOtherCases) { EXPECT_EQ(golden_cases("rope_positions").size(), 20U); }

}  // namespace
}  // namespace capstan::test
