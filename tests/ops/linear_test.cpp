// The affine map: values, agreement with matmul, layouts, errors. Gradient checks: samples/matmul_samples.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor draw(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }

TEST(Linear, IsAnAffineMap) {
  expect_exactly(linear(tensor({1, 2}), tensor({{3, 4}}), tensor({5})), {1}, {16});
  expect_exactly(linear(tensor({{1, 2}, {0, 1}}), tensor({{3, 4}, {5, 6}, {7, 8}})), {2, 3}, {11, 17, 23, 4, 6, 8});
}

TEST(Linear, EqualsMatMulPlusBias) {
  const Tensor x = draw(1, {2, 3, 5}), weight = draw(2, {4, 5}), bias = draw(3, {4}), up = draw(4, {2, 3, 4});
  Tape tape;
  const Tensor x1 = tape.watch(x), w1 = tape.watch(weight), b1 = tape.watch(bias);
  const Tensor x2 = tape.watch(x), w2 = tape.watch(weight), b2 = tape.watch(bias);
  const Tensor fused = linear(x1, w1, b1), composed = matmul(x2, transpose(w2)) + b2;
  expect_near(fused, {2, 3, 4}, composed.to_doubles(), 1e-14);
  const Gradients g = tape.backward({{fused, up}, {composed, up}});
  expect_near(g.of(x1), {2, 3, 5}, g.of(x2).to_doubles(), 1e-14);
  expect_near(g.of(w1), {4, 5}, g.of(w2).to_doubles(), 1e-14);
  expect_near(g.of(b1), {4}, g.of(b2).to_doubles(), 1e-14);
}

TEST(Linear, ReadsAnyStrides) {
  const Tensor x = draw(5, {2, 3, 5}), weight = draw(6, {4, 5}), bias = draw(7, {4});
  const std::vector<double> expected = linear(x, weight, bias).to_doubles();
  const Tensor time_first = transpose(transpose(x, 0, 1).dense(), 0, 1);
  const Tensor channels_first = transpose(transpose(x).dense());
  expect_near(linear(time_first, weight, bias), {2, 3, 4}, expected, 1e-14);
  expect_near(linear(channels_first, weight, bias), {2, 3, 4}, expected, 1e-14);
  expect_near(linear(x, transpose(transpose(weight).dense()), bias), {2, 3, 4}, expected, 1e-14);
  expect_near(linear(x, weight, slice(pad(bias, 0, 0, 1, 2), 0, 0, to_end, 2)), {2, 3, 4}, expected, 1e-14);
  const Tensor stretched = broadcast_to(slice(x, 1, 0, 1), Shape{2, 3, 5});
  expect_near(linear(stretched, weight), {2, 3, 4}, linear(stretched.dense(), weight).to_doubles(), 1e-14);
}

TEST(Linear, AnInnerSizeOfZeroGivesTheBias) {
  expect_exactly(linear(zeros({2, 0}), zeros({3, 0}), tensor({1, 2, 3})), {2, 3}, {1, 2, 3, 1, 2, 3});
  expect_exactly(linear(zeros({0, 4}), zeros({3, 4}), tensor({1, 2, 3})), {0, 3}, {});
}

TEST(Linear, TheBiasGradientKeepsNothing) {
  Tape tape;
  const Tensor bias = tape.watch(draw(8, {4}));
  linear(draw(9, {3, 5}), draw(10, {4, 5}), bias);
  EXPECT_EQ(tape.saved_bytes(), 0);
}

TEST(Linear, NamesWhatDoesNotFit) {
  const auto error = [](const Tensor& x, const Tensor& w, const Tensor& b = Tensor()) {
    return error_of([&] { linear(x, w, b); });
  };
  EXPECT_EQ(error(zeros({2, 3}), zeros({4, 5})),
            "linear: x's last axis must be the weight's; got x [2, 3] and weight [4, 5] [N, K]");
  EXPECT_EQ(error(zeros({}), zeros({4, 5})),
            "linear: x's last axis must be the weight's; got x [] and weight [4, 5] [N, K]");
  EXPECT_EQ(error(zeros({2, 3}), zeros({3})), "linear: weight must be [N, K]; got [3]");
  EXPECT_EQ(error(zeros({2, 3}), zeros({4, 3}), zeros({3})), "linear: bias must be [N] = [4]; got [3]");
  EXPECT_EQ(error(zeros({2, 3}), zeros({4, 3}, DType::f64)),
            "linear: x and weight must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error(zeros({2, 3}, DType::i32), zeros({4, 3})), "linear: x must be f32 or f64; got i32; cast it first");
}

}  // namespace
}  // namespace capstan::test
