// Sizes that wrap, tapes that die at bad moments, ops with too many outputs: misuse that must end in a sentence.
#include <capstan/autograd/create.h>
#include <capstan/autograd/error.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;

constexpr Index huge = Index{1} << 62;

TEST(Limits, CountsThatWrapAreRefusedHoweverTheShapeIsBuilt) {
  Shape pushed{2, 3};
  EXPECT_EQ(error_of([&] { pushed.push_back(huge); }),
            "shape: at most 2^62 elements; got sizes 2 x 3 x 4611686018427387904");
  Shape changed{2, 3};
  EXPECT_EQ(error_of([&] { changed.set(1, huge); }), "shape: at most 2^62 elements; got sizes 2 x 4611686018427387904");
  // The product is 2^64 + 1, which wraps to 1.
  EXPECT_EQ(error_of([] {
              broadcast("add", Shape{274177, 1}, Shape{1, 67280421310721});
            }),
            "shape: at most 2^62 elements; got sizes 274177 x 67280421310721");
  EXPECT_EQ(error_of([] { Shape{0, huge, 4}; }), "shape: at most 2^62 elements; got sizes 0 x 4611686018427387904 x 4");
}

TEST(Limits, AnIndexFarOutsideIsRefusedBeforeAnythingIsComputed) {
  EXPECT_EQ(error_of([] {
              zeros({4, 4}).at({huge, 3});
            }),
            "at: the index must lie inside the shape [4, 4]; got [4611686018427387904, 3]");
}

TEST(Limits, AHugeEmptyOnePrintsAtOnce) { EXPECT_EQ(to_string(zeros({Index{1} << 33, 0})), "[]  f32 [8589934592, 0]"); }

TEST(Limits, ATapeConsumedInsideFIsAnErrorAndNotAGradientOfZero) {
  Tape tape;
  const Tensor w = tape.watch(tensor(3.0, DType::f64));
  const auto consuming = [&](const Tensor& x) {
    const Tensor y = test::plain::mul(x, w);
    (void)tape.backward(y);
    return y;
  };
  EXPECT_EQ(error_of([&] { value_and_grad(tensor(2.0, DType::f64), consuming); }),
            "value_and_grad: the tape that f's argument stands on must outlive f; it was consumed or destroyed inside "
            "f; pass {.keep = true} "
            "to that backward");
}

TEST(Limits, AnOpThatThrowsLeavesTheTapesApart) {
  Tape tape;
  const Tensor w = tape.watch(tensor({1, 2, 3}, DType::f64));
  const auto result = value_and_grad(tensor({3.0}, DType::f64), [&](const Tensor& x) {
    const Tensor y = test::plain::mul(x, x);
    EXPECT_NE(error_of([&] { test::plain::mul(y, w); }), "no error");
    return y;
  });
  EXPECT_EQ(tape.size(), 1);
  EXPECT_FALSE(result.gradient.recorded());
  EXPECT_EQ(result.gradient.item(), 6);
}

TEST(Limits, AnEmptyCotangentIsRefused) {
  EXPECT_EQ(error_of([] {
              vjp(
                  tensor({2.0}), [](const Tensor& x) { return x; }, Tensor());
            }),
            "vjp: the cotangent must hold a value; got an empty handle; for a scalar f use grad()");
}

struct ManyOutputs final : Op {
  static constexpr std::string_view name = "many_outputs";
  Types infer(Inputs) const override {
    Types types;
    for (int i = 0; i < 65; ++i) types.push_back(Type{Shape{}, DType::f64});
    return types;
  }
  void eval(Inputs, Outputs) const override {}
  Tensors vjp(const Call& call) const override { return no_gradient(call, "never reached"); }
};

TEST(Limits, MoreThan64OutputsAreRefused) {
  EXPECT_EQ(error_of([] { record(ManyOutputs{}, tensor(1.0)); }), "many_outputs: an op has at most 64 outputs; got 65");
}

}  // namespace
}  // namespace capstan
