// Tests of gradients.h: looking gradients up, for tensors and for structures, and what was not reached.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::plain::mul;
using test::plain::square;
using test::plain::sum;

struct Pair {
  Tensor a, b;
  static void fields(auto& self, auto& f) {
    f("a", self.a);
    f("b", self.b);
  }
};

TEST(Gradients, OfAStructureIsAStructure) {
  Tape tape;
  const Pair pair{tape.watch(tensor(2, DType::f64)), tape.watch(tensor(3, DType::f64))};
  const Gradients g = tape.backward(mul(pair.a, square(pair.b)));
  const Pair gradient = g.of(pair);
  EXPECT_EQ(gradient.a.item(), 9);
  EXPECT_EQ(gradient.b.item(), 12);
  const std::vector<Tensor> list = g.of(std::vector<Tensor>{pair.b, pair.a});
  EXPECT_EQ(list[0].item(), 12);
  EXPECT_EQ(list[1].item(), 9);
}

TEST(Gradients, WhatIsNotReachedIsZeroAndCounted) {
  Tape tape;
  const Tensor x = tape.watch(ones({2}, DType::f64)), y = tape.watch(ones({3})), z = tape.watch(ones({2}, DType::f64));
  const Gradients g = tape.backward(sum(mul(x, z.detach())));
  EXPECT_TRUE(g.reached(x));
  EXPECT_FALSE(g.reached(y));
  EXPECT_FALSE(g.reached(z));
  EXPECT_EQ(g.unreached(), 2);
  EXPECT_EQ(g.of(y).dtype(), DType::f32);
  expect_exactly(g.of(y), {3}, {0, 0, 0});
}

TEST(Gradients, AreValues) {
  Tape tape;
  const Tensor x = tape.watch(tensor(3, DType::f64));
  const Tensor y = square(x);
  const Gradients first = tape.backward(y, {.keep = true});
  const Gradients copy = first;
  const Gradients second = tape.backward(mul(y, x));
  EXPECT_EQ(first.of(x).item(), 6);
  EXPECT_EQ(copy.of(x).item(), 6);
  EXPECT_EQ(second.of(x).item(), 27);
}

TEST(Gradients, AreDenseAndUnrecorded) {
  Tape tape;
  const Tensor x = tape.watch(ones({2, 3}, DType::f64));
  const Tensor g = tape.backward(sum(x)).of(x);  // the rule gives a view of stride 0
  EXPECT_TRUE(g.contiguous());
  EXPECT_FALSE(g.recorded());
}

TEST(Gradients, OfTheOriginalHandleIsAnError) {
  Tape tape;
  const Tensor original = ones({2});
  const Tensor x = tape.watch(original);
  const Gradients g = tape.backward(sum(square(x)));
  EXPECT_EQ(error_of([&] { (void)g.reached(original); }),
            "gradients: x must have been watched on the tape before backward; got a tensor of shape [2] that was not; "
            "pass the "
            "tensor that watch() returned");
}

TEST(Gradients, CotangentsThatMeetAreSummedWithoutTouchingSharedOnes) {
  // x receives the root's cotangent itself three times: the caller's tensor must not be added to in place.
  Tape tape;
  const Tensor x = tape.watch(ones({2}, DType::f64));
  Tensor cotangent = tensor({1, 10}, DType::f64);
  const Tensor y = test::plain::add(test::plain::add(x, x), x);
  expect_exactly(tape.backward(y, cotangent).of(x), {2}, {3, 30});
  expect_exactly(cotangent, {2}, {1, 10});
}

TEST(Gradients, SharedByTwoWatchedTensorsStaysWhole) {
  Tape tape;
  const Tensor a = tape.watch(ones({2}, DType::f64)), b = tape.watch(ones({2}, DType::f64));
  const Tensor y = test::plain::add(test::plain::add(a, b), a);
  const Gradients g = tape.backward(y, tensor({1, 10}, DType::f64));
  expect_exactly(g.of(a), {2}, {2, 20});
  expect_exactly(g.of(b), {2}, {1, 10});
}

}  // namespace
}  // namespace capstan
