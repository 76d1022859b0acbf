// Sinusoids and ALiBi: hand values, fit into attention, errors. Against reference results: golden_positions_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/positions.h>
#include <capstan/ops/rearrange.h>

#include <cmath>
#include <limits>

#include "support/expect.h"

namespace capstan::test {
namespace {

TEST(Positions, SinusoidsByHand) {
  const double s = std::sin(1), c = std::cos(1);
  expect_near(sinusoidal_positions(2, 2, {}, DType::f64), {2, 2}, {0, 1, s, c}, 1e-15);
  expect_near(sinusoidal_positions(1, 4, {.start = 3, .base = 81}, DType::f64), {1, 4},
              {std::sin(3), std::cos(3), std::sin(3.0 / 9), std::cos(3.0 / 9)}, 1e-15);
  // An odd width ends with a sine.
  expect_near(sinusoidal_positions(1, 3, {.start = 1, .base = 8}, DType::f64), {1, 3}, {s, c, std::sin(0.25)}, 1e-15);
  EXPECT_EQ(sinusoidal_positions(2, 2).dtype(), DType::f32);
  EXPECT_EQ(to_string(sinusoidal_positions(0, 4).shape()), "[0, 4]");
  EXPECT_EQ(to_string(sinusoidal_positions(4, 0).shape()), "[4, 0]");
}

TEST(Positions, AlibiSlopesByHand) {
  expect_exactly(alibi_slopes(4), {4}, {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256});
  expect_exactly(alibi_slopes(1), {1}, {1.0 / 256});
  expect_exactly(alibi_slopes(3, DType::f64), {3}, {1.0 / 16, 1.0 / 256, 1.0 / 4});  // of 2, then the first of 4
  expect_exactly(alibi_slopes(0), {0}, {});
}

TEST(Positions, AlibiBiasByHand) {
  expect_exactly(alibi_bias(1, 1, 3).values, {1, 1, 3}, {-2.0 / 256, -1.0 / 256, 0});
  expect_exactly(alibi_bias(2, 2, 2, DType::f64).values, {2, 2, 2},
                 {0, -1.0 / 16, -1.0 / 16, 0, 0, -1.0 / 256, -1.0 / 256, 0});
  EXPECT_EQ(to_string(alibi_bias(2, 0, 3).values.shape()), "[2, 0, 3]");
}

TEST(Positions, AlibiIsABiasOfAttention) {
  const Tensor q = zeros({2, 4, 3, 5}, DType::f64), k = zeros({2, 4, 6, 5}, DType::f64);
  const AttentionResult result = attention_reference(
      q, k, k, {.mask = Mask::causal(Align::bottom_right), .bias = alibi_bias(4, 3, 6, DType::f64)});
  // Scores are the bias alone: neighbours differ by the factor e^slope.
  for (Index h = 0; h < 4; ++h)
    for (Index i = 0; i < 3; ++i)
      for (Index j = 0; j + 1 <= i + 3; ++j)
        EXPECT_NEAR(result.weights.at({1, h, i, j + 1}) / result.weights.at({1, h, i, j}),
                    std::exp(alibi_slopes(4, DType::f64).at({h})), 1e-14);
}

TEST(Positions, EmptyResultsComeAtOnce) {
  constexpr Index many = Index{1} << 50;
  EXPECT_EQ(sinusoidal_positions(many, 0).shape(), Shape({many, 0}));
  EXPECT_EQ(alibi_bias(many, 0, 1).values.shape(), Shape({many, 0, 1}));
  EXPECT_EQ(alibi_bias(1, many, 0).values.shape(), Shape({1, many, 0}));
}

TEST(Positions, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] { sinusoidal_positions(2, 2, {}, DType::i32); }),
            "sinusoidal_positions: the result must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([] { sinusoidal_positions(2, 2, {.base = -1}); }),
            "sinusoidal_positions: base must be positive and finite; got -1");
  EXPECT_EQ(error_of([] { sinusoidal_positions(2, 2, {.base = 0}); }),
            "sinusoidal_positions: base must be positive and finite; got 0");
  EXPECT_EQ(error_of([] { sinusoidal_positions(2, 2, {.base = std::numeric_limits<double>::infinity()}); }),
            "sinusoidal_positions: base must be positive and finite; got inf");
  EXPECT_NE(error_of([] { sinusoidal_positions(-1, 2); }), "no error");
  EXPECT_EQ(error_of([] { alibi_slopes(2, DType::boolean); }),
            "alibi_slopes: the result must be f32 or f64; got bool; cast it first");
  EXPECT_EQ(error_of([] { alibi_bias(2, 1, 1, DType::i32); }),
            "alibi_bias: the result must be f32 or f64; got i32; cast it first");
  EXPECT_NE(error_of([] { alibi_bias(-1, 1, 1); }), "no error");
}

}  // namespace
}  // namespace capstan::test
