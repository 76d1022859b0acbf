// The affine map of a GELU: values, equality with the composed form, what it keeps, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/gelu_linear.h>
#include <capstan/ops/linear.h>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor draw(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }

TEST(GeluLinear, HandValue) {
  expect_near(gelu_linear(tensor({1, -6}, DType::f64), tensor({{2, 1}}, DType::f64), tensor({5}, DType::f64)), {1},
              {6.6823840}, 1e-7);
}

TEST(GeluLinear, EqualsTheComposedForm) {
  const Tensor x = draw(1, {2, 3, 5}), weight = draw(2, {4, 5}), bias = draw(3, {4}), up = draw(4, {2, 3, 4});
  Tape tape;
  const Tensor x1 = tape.watch(x), w1 = tape.watch(weight), b1 = tape.watch(bias);
  const Tensor x2 = tape.watch(x), w2 = tape.watch(weight), b2 = tape.watch(bias);
  const Tensor fused = gelu_linear(x1, w1, b1), composed = linear(gelu_tanh(x2), w2, b2);
  expect_exactly(fused, {2, 3, 4}, composed.to_doubles());
  const Gradients g = tape.backward({{fused, up}, {composed, up}});
  expect_exactly(g.of(x1), {2, 3, 5}, g.of(x2).to_doubles());
  expect_exactly(g.of(w1), {4, 5}, g.of(w2).to_doubles());
  expect_exactly(g.of(b1), {4}, g.of(b2).to_doubles());
}

TEST(GeluLinear, KeepsItsInputAndWeightOnly) {
  Tape tape;
  gelu_linear(tape.watch(draw(5, {3, 5})), tape.watch(draw(6, {2, 5})), tape.watch(draw(7, {2})));
  EXPECT_EQ(tape.saved_bytes(), Index{(15 + 10) * 8});
}

TEST(GeluLinear, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([&] {
              gelu_linear(zeros({2, 3}), zeros({4, 5}));
            }),
            "gelu_linear: x's last axis must be the weight's; got x [2, 3] and weight [4, 5] [N, K]");
  EXPECT_EQ(error_of([&] { gelu_linear(zeros({2, 3}), zeros({3})); }), "gelu_linear: weight must be [N, K]; got [3]");
  EXPECT_EQ(error_of([&] {
              gelu_linear(zeros({2, 3}), zeros({4, 3}), zeros({3}));
            }),
            "gelu_linear: bias must be [N] = [4]; got [3]");
}

}  // namespace
}  // namespace capstan::test
