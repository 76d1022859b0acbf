// Tests of tape.h: what watch, backward and Gradients refuse, to the letter.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/makers.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::number;
using test::plain::mul;
using test::plain::square;
using test::plain::sum;

TEST(TapeErrors, Watch) {
  Tape tape, other;
  EXPECT_EQ(error_of([&] { tape.watch(Tensor()); }),
            "watch: x must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { tape.watch(arange(3)); }),
            "watch: x must be f32 or f64 to have a gradient; got i32 [3]; cast() it first");
  const Tensor x = other.watch(ones({2}));
  EXPECT_EQ(error_of([&] { tape.watch(x); }),
            "watch: x must not be recorded on another living tape; got such a tensor of shape [2]; detach() it, or use "
            "grad() or vjp()");
}

TEST(TapeErrors, BackwardRefusesToGuess) {
  Tape tape;
  const Tensor x = tape.watch(ones({2, 8}));
  const Tensor y = square(x);
  EXPECT_EQ(error_of([&] { tape.backward(y); }),
            "backward: y must be a scalar or come with a cotangent; got [2, 8]; reduce it with sum() or mean()");
  EXPECT_EQ(error_of([&] { tape.backward(y, ones({8})); }),
            "backward: the cotangent must have y's shape and dtype; got f32 [8] for y f32 [2, 8]");
  EXPECT_EQ(error_of([&] {
              tape.backward(y, ones({2, 8}, DType::f64));
            }),
            "backward: the cotangent must have y's shape and dtype; got f64 [2, 8] for y f32 [2, 8]");
  EXPECT_EQ(error_of([&] { tape.backward(std::span<const Root>()); }),
            "backward: at least one root is needed; got none");
  // None of that consumed the tape.
  expect_exactly(tape.backward(sum(y)).of(x), {2, 8}, std::vector<double>(16, 2));
}

TEST(TapeErrors, AnEmptyListOfRootsOnAnEmptyTape) {
  Tape tape;
  EXPECT_EQ(error_of([&] { tape.backward(std::span<const Root>()); }),
            "backward: at least one root is needed; got none");
}

TEST(TapeErrors, BackwardOfWhatIsNotThere) {
  Tape tape, other;
  EXPECT_EQ(error_of([&] { tape.backward(Tensor()); }),
            "backward: y must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { tape.backward(number(1)); }),
            "backward: y must be recorded; got a constant; compute it from a tensor that watch() returned");
  const Tensor elsewhere = other.watch(number(1));
  EXPECT_EQ(error_of([&] { tape.backward(elsewhere); }),
            "backward: y must be recorded on this tape; got a tensor of another tape; call backward on that one");
  Tensor stale;
  {
    Tape gone;
    stale = gone.watch(number(1));
  }
  EXPECT_EQ(error_of([&] { tape.backward(stale); }),
            "backward: y must be recorded on a living tape; got a tensor whose tape is gone; keep the Tape alive until "
            "backward");
}

TEST(TapeErrors, ASecondBackward) {  // CASES 65
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor y = square(x);
  EXPECT_EQ(tape.backward(y).of(x).item(), 6);
  EXPECT_EQ(error_of([&] { tape.backward(y); }),
            "backward: the tape must still hold y; got a tape that an earlier backward consumed; pass {.keep = true} "
            "to that one");
}

TEST(TapeErrors, KeepGivesTheSameGradientsAgain) {  // CASES 65
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor y = square(x);
  EXPECT_EQ(tape.backward(y, {.keep = true}).of(x).item(), 6);
  EXPECT_EQ(tape.backward(y, {.keep = true}).of(x).item(), 6);
  EXPECT_EQ(tape.backward(y).of(x).item(), 6);
  EXPECT_FALSE(y.recorded());
}

TEST(TapeErrors, TwoUnrelatedTapes) {
  Tape first, second;
  const Tensor a = first.watch(number(1)), b = second.watch(number(2));
  EXPECT_EQ(error_of([&] { mul(a, b); }),
            "plain_mul: inputs must be recorded on one tape; got two unrelated tapes; detach() one input, or use "
            "grad() or vjp() inside");
  EXPECT_EQ(first.size(), 1);
  EXPECT_EQ(second.size(), 1);
  EXPECT_EQ(first.backward(mul(a, b.detach())).of(a).item(), 2);
}

TEST(TapeErrors, GradientsOfWhatWasNotWatched) {
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  const Tensor y = square(x);
  const Gradients g = tape.backward(sum(y));
  EXPECT_EQ(error_of([&] { (void)g.of(y); }),
            "gradients: x must have been watched on the tape before backward; got a tensor of shape [2] that was not; "
            "pass the "
            "tensor that watch() returned");
}

}  // namespace
}  // namespace capstan
