// Rotary embedding: hand values, what it promises of products and lengths, positions, errors. Gradient checks: samples/.
// Against reference results: golden_positions_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/rotary.h>

#include <cmath>
#include <limits>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::test {
namespace {

Tensor draw(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(Key{.seed = seed}, shape, 0, 1, dtype);
}

using Counting = Tensor (*)(const Tensor&, const RotaryOptions&);
constexpr Counting both[] = {rotary_half_split, rotary_adjacent_pairs};

TEST(Rotary, ThePairingIsInTheName) {  // CASES 47
  const Tensor x = tensor({{1, 2, 3, 4}}, DType::f64);
  const double c0 = std::cos(1), s0 = std::sin(1), c1 = std::cos(0.01), s1 = std::sin(0.01);  // 10000^(−2/4) = 0.01
  expect_near(rotary_half_split(x, {.start = 1}), {1, 4}, {c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0, 4 * c1 + 2 * s1},
              1e-15);
  expect_near(rotary_adjacent_pairs(x, {.start = 1}), {1, 4},
              {c0 - 2 * s0, 2 * c0 + s0, 3 * c1 - 4 * s1, 4 * c1 + 3 * s1}, 1e-15);
  expect_near(rotary_half_split(tensor({{1, 0}}), {.start = 1}), {1, 2}, {0.5403023, 0.8414710}, 1e-7);
}

TEST(Rotary, ProductsDependOnDistanceAlone) {  // CASES 47
  const Tensor q = draw(1, {1, 16}), k = draw(2, {1, 16});
  for (const Counting rotary : both) {
    const auto product = [&](Index m, Index n) {
      return sum(rotary(q, {.start = m}) * rotary(k, {.start = n})).item();
    };
    for (const Index distance : {-7, -1, 0, 1, 5})
      for (const Index n : {0, 3, 100, 4000})
        EXPECT_NEAR(product(n + distance, n), product(distance, 0), 1e-11) << distance << " " << n;
    EXPECT_GT(std::abs(product(1, 0) - product(0, 0)), 1e-3);
    EXPECT_GT(std::abs(product(1, 0) - product(0, 1)), 1e-3);
  }
}

TEST(Rotary, LengthsStay) {  // CASES 47
  const Tensor x = draw(1, {2, 3, 50, 6});
  const std::vector<double> expected = sum(x * x, -1).to_doubles();
  for (const Counting rotary : both) {
    const Tensor y = rotary(x, {.start = 1000});
    expect_near(sum(y * y, -1), {2, 3, 50}, expected, 1e-14);
  }
}

TEST(Rotary, PositionZeroIsTheIdentity) {  // CASES 47
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Counting rotary : both) {
      const Tensor x = draw(1, {2, 1, 8}, dtype);
      EXPECT_TRUE(same_bits(rotary(x, {}), x));
    }
}

TEST(Rotary, PositionsCanBeGiven) {
  const Tensor x = draw(1, {2, 3, 4});
  const Tensor places = tensor({5, 6, 7}, DType::i32);
  EXPECT_TRUE(same_bits(rotary_half_split(x, places), rotary_half_split(x, {.start = 5})));
  EXPECT_TRUE(same_bits(rotary_adjacent_pairs(x, places, 50), rotary_adjacent_pairs(x, {.start = 5, .base = 50})));
  const Tensor spread = slice(tensor({5, -1, 6, -1, 7}, DType::i32), 0, 0, 5, 2);
  EXPECT_TRUE(same_bits(rotary_half_split(x, spread), rotary_half_split(x, places)));
  const Tensor mixed = rotary_half_split(x, tensor({9, 0, 2}, DType::i32));
  EXPECT_TRUE(same_bits(slice(mixed, 1, 1, 2), slice(x, 1, 1, 2)));
  EXPECT_TRUE(same_bits(slice(mixed, 1, 0, 1), rotary_half_split(slice(x, 1, 0, 1), {.start = 9})));
}

TEST(Rotary, AnglesOfF32AreThoseOfF64) {
  const Tensor wide = ones({2, 64}, DType::f64), narrow = ones({2, 64});
  const Index far = 1000001;  // in f32 angles of this size would be off by 0.03
  for (const Counting rotary : both)
    expect_near(rotary(narrow, {.start = far}), {2, 64}, rotary(wide, {.start = far}).to_doubles(), 3e-7);
}

TEST(Rotary, TheGradientTurnsBackAndKeepsNothing) {
  for (const Counting rotary : both)
    for (const bool create_graph : {false, true}) {
      Tape tape;
      const Tensor x = tape.watch(draw(1, {2, 5, 6}));
      const Tensor y = rotary(x, {.start = 3});
      EXPECT_EQ(tape.saved_bytes(), 0);
      // Turning forth and back is the identity.
      const Tensor dx = tape.backward(y, y.detach(), {.create_graph = create_graph}).of(x).detach();
      expect_near(dx, {2, 5, 6}, x.to_doubles(), 1e-14);
    }
}

TEST(Rotary, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              rotary_half_split(zeros({2, 3}));
            }),
            "rotary: x must be [..., T, D] with an even D; got [2, 3]");
  EXPECT_EQ(error_of([] { rotary_adjacent_pairs(zeros({4})); }),
            "rotary: x must be [..., T, D] with an even D; got [4]");
  EXPECT_EQ(error_of([] {
              rotary_half_split(zeros({2, 4}, DType::i32));
            }),
            "rotary: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([] {
              rotary_half_split(zeros({2, 4}), {.base = 0});
            }),
            "rotary: base must be positive and finite; got 0");
  EXPECT_EQ(error_of([] {
              rotary_half_split(zeros({2, 4}), {.base = std::numeric_limits<double>::infinity()});
            }),
            "rotary: base must be positive and finite; got inf");
  EXPECT_EQ(error_of([] {
              rotary_half_split(zeros({2, 4}), zeros({3}, DType::i32));
            }),
            "rotary: positions must be i32 [T] = [2]; got i32 [3]");
  EXPECT_EQ(error_of([] {
              rotary_adjacent_pairs(zeros({2, 4}), zeros({2}));
            }),
            "rotary: positions must be i32 [T] = [2]; got f32 [2]");
}

}  // namespace
}  // namespace capstan::test
