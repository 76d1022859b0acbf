// Tests of tape.h: watching, gradients, orders above the first. Its errors, memory, re-entrant rules and size have files of
// their own: tape_*_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/makers.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::expect_exactly;
using test::number;
using test::plain::add;
using test::plain::mul;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using ::testing::ElementsAre;

// ---- gradients -------------------------------------------------------------------------------------------------------

TEST(Tape, GradientsOfSharedIntermediates) {  // CASES 64
  {
    Tape tape;
    const Tensor a = tape.watch(number(1)), b = add(a, a), c = add(b, b);
    EXPECT_EQ(tape.backward(c).of(a).item(), 4);
  }
  Tape tape;
  const Tensor a = tape.watch(number(2)), b = tape.watch(number(3));
  const Tensor c = add(a, b), d = mul(a, b), e = add(c, d), f = mul(c, d), y = add(e, f);
  const Gradients g = tape.backward(y);
  EXPECT_EQ(g.of(a).item(), 25);
  EXPECT_EQ(g.of(b).item(), 19);
}

TEST(Tape, OnlyDescendantsOfWatchedTensorsRecord) {
  Tape tape;
  const Tensor a = number(2), x = tape.watch(number(3));
  EXPECT_FALSE(a.recorded());
  EXPECT_TRUE(x.recorded());
  EXPECT_EQ(tape.size(), 1);
  EXPECT_FALSE(mul(a, a).recorded());
  EXPECT_EQ(tape.size(), 1);
  EXPECT_TRUE(mul(a, x).recorded());
  EXPECT_FALSE(x.detach().recorded());
  EXPECT_THAT(tape.names(), ElementsAre("", "plain_mul"));
}

TEST(Tape, WatchedTensorsMayBeIntermediates) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), z = square(x);
  const Tensor same = tape.watch(z);
  EXPECT_EQ(tape.size(), 2);  // no new node
  const Gradients g = tape.backward(square(same));
  EXPECT_EQ(g.of(z).item(), 18);
  EXPECT_EQ(g.of(x).item(), 108);
}

TEST(Tape, WatchingTwiceIsWatchingOnce) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), again = tape.watch(x);
  const Gradients g = tape.backward(square(again));
  EXPECT_EQ(g.of(x).item(), 6);
  EXPECT_EQ(g.of(again).item(), 6);
  EXPECT_EQ(g.unreached(), 0);
}

TEST(Tape, TheRootItselfMayBeWatched) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  EXPECT_EQ(tape.backward(x).of(x).item(), 1);
}

TEST(Tape, SeveralRootsWithCotangents) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}, DType::f64));
  const Tensor y = square(x), z = sum(x);
  const Gradients g = tape.backward({{y, tensor({10, 100}, DType::f64)}, {z}, {z, number(0.5)}});
  expect_exactly(g.of(x), {2}, {21.5, 401.5});
}

TEST(Tape, AScalarMayHaveAxesOfSizeOne) {
  Tape tape;
  const Tensor x = tape.watch(tensor({{3}}, DType::f64));
  expect_exactly(tape.backward(square(x)).of(x), {1, 1}, {6});
}

TEST(Tape, ACotangentMayBeStretched) {  // CASES 26
  Tape tape;
  const Tensor x = tape.watch(zeros({1000}, DType::f64));
  const Gradients g = tape.backward(scale(x, 2), test::plain::fill(number(1), {1000}));
  expect_exactly(g.of(x), {1000}, std::vector<double>(1000, 2));
  EXPECT_TRUE(g.of(x).contiguous());
}

TEST(Tape, GradientsOfF32AreF32) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}));
  const Tensor g = tape.backward(sum(square(x))).of(x);
  EXPECT_EQ(g.dtype(), DType::f32);
  expect_exactly(g, {2}, {2, 4});
}

// ---- higher orders ---------------------------------------------------------------------------------------------------

TEST(TapeHigherOrder, GradientsOfGradients) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor y = mul(square(x), square(x));  // x⁴
  const Tensor first = tape.backward(y, {.create_graph = true}).of(x);
  EXPECT_EQ(first.item(), 32);
  EXPECT_TRUE(first.recorded());
  const Tensor second = tape.backward(first, {.create_graph = true}).of(x);
  EXPECT_EQ(second.item(), 48);
  const Tensor third = tape.backward(second, {.create_graph = true}).of(x);
  EXPECT_EQ(third.item(), 48);
  EXPECT_EQ(tape.backward(third).of(x).item(), 24);
}

TEST(TapeHigherOrder, KeepRecordsNothing) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor y = square(x);
  const Index size = tape.size();
  EXPECT_FALSE(tape.backward(y, {.keep = true}).of(x).recorded());
  EXPECT_EQ(tape.size(), size);
  EXPECT_TRUE(tape.backward(y, {.create_graph = true}).of(x).recorded());
  EXPECT_GT(tape.size(), size);
}

TEST(TapeHigherOrder, ARecordedCotangentIsDifferentiated) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), u = tape.watch(number(5));
  const Tensor g = tape.backward(square(x), u, {.create_graph = true}).of(x);  // 2 x u
  EXPECT_EQ(g.item(), 30);
  const Gradients second = tape.backward(g);
  EXPECT_EQ(second.of(x).item(), 10);
  EXPECT_EQ(second.of(u).item(), 6);
}

TEST(TapeHigherOrder, ARecordedCotangentIsAConstantWithoutCreateGraph) {
  Tape tape, other;
  const Tensor x = tape.watch(number(3)), u = tape.watch(number(5)), elsewhere = other.watch(number(7));
  const Tensor y = square(x);
  const Index size = tape.size();
  const Tensor g = tape.backward(y, u, {.keep = true}).of(x);
  EXPECT_EQ(g.item(), 30);
  EXPECT_FALSE(g.recorded());
  EXPECT_EQ(tape.size(), size);
  EXPECT_EQ(tape.backward(y, elsewhere).of(x).item(), 42);
  EXPECT_EQ(other.size(), 1);
}

}  // namespace
}  // namespace capstan
