// ops/compare.h: truth tables, NaN, numbers, errors.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/rearrange.h>

#include <limits>

#include "support/expect.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;

const double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Compare, EveryRelationForEveryDtype) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean}) {
    const Tensor a = tensor({0, 0, 1, 1}, dtype), b = tensor({0, 1, 0, 1}, dtype);
    expect_exactly(equal(a, b), {4}, {1, 0, 0, 1});
    expect_exactly(not_equal(a, b), {4}, {0, 1, 1, 0});
    expect_exactly(a < b, {4}, {0, 1, 0, 0});
    expect_exactly(a <= b, {4}, {1, 1, 0, 1});
    expect_exactly(a > b, {4}, {0, 0, 1, 0});
    expect_exactly(a >= b, {4}, {1, 0, 1, 1});
    EXPECT_EQ((a < b).dtype(), DType::boolean);
  }
}

TEST(Compare, NaNIsUnequalToEverythingAndNotOrdered) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor a = full({1}, nan, dtype);
    for (const Tensor& b : {a, ones({1}, dtype)}) {
      expect_exactly(equal(a, b), {1}, {0});
      expect_exactly(not_equal(a, b), {1}, {1});
      expect_exactly(a < b, {1}, {0});
      expect_exactly(a <= b, {1}, {0});
      expect_exactly(a > b, {1}, {0});
      expect_exactly(a >= b, {1}, {0});
    }
  }
}

TEST(Compare, BroadcastsAndReadsStrides) {
  const Tensor a = tensor({{1, 2}, {3, 4}});
  expect_exactly(transpose(a) > tensor({1, 3}), {2, 2}, {0, 0, 1, 1});
  expect_exactly(less(tensor({{1}, {2}}), tensor({1, 2, 3})), {2, 3}, {0, 1, 1, 0, 0, 1});
  expect_exactly(zeros({0, 2}) < zeros({2}), {0, 2}, {});
}

TEST(Compare, EveryI32IsANumberToCompareWith) {
  for (const std::int32_t number : {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()})
    expect_exactly(equal(tensor(std::vector<std::int32_t>{number, 0}, {2}), static_cast<double>(number)), {2}, {1, 0});
}

TEST(Compare, ANumberIsRoundedToTheDtype) {
  expect_exactly(equal(tensor({0.1, 0.2}), 0.1), {2}, {1, 0});
  expect_exactly(not_equal(tensor({0.1, 0.2}), 0.1), {2}, {0, 1});
  const Tensor ids = tensor({-1, 0, 1}, DType::i32);
  expect_exactly(ids < 0.0, {3}, {1, 0, 0});
  expect_exactly(ids <= 0, {3}, {1, 1, 0});
  expect_exactly(ids > 0.0, {3}, {0, 0, 1});
  expect_exactly(ids >= 0, {3}, {0, 1, 1});
  expect_exactly(equal(tensor({0, 1}, DType::boolean), 1), {2}, {0, 1});
}

TEST(Compare, NothingIsRecorded) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}));
  const Index before = tape.size();
  const Tensor truth = logical_and(x > 1.0, logical_not(equal(x, x)));
  EXPECT_FALSE(truth.recorded());
  EXPECT_EQ(tape.size(), before);
}

TEST(Compare, LogicByTruthTable) {
  const Tensor a = tensor({0, 0, 1, 1}, DType::boolean), b = tensor({0, 1, 0, 1}, DType::boolean);
  expect_exactly(logical_and(a, b), {4}, {0, 0, 0, 1});
  expect_exactly(logical_or(a, b), {4}, {0, 1, 1, 1});
  expect_exactly(logical_not(a), {4}, {1, 1, 0, 0});
  expect_exactly(logical_or(reshape(a, {4, 1}), b), {4, 4}, {0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST(Compare, ErrorsNameWhatMustHold) {
  const Tensor f = ones({2}), i = ones({2}, DType::i32), t = ones({2}, DType::boolean);
  EXPECT_EQ(error_of([&] { less(f, i); }), "less: a and b must have one dtype; got f32 and i32; cast one of them");
  EXPECT_EQ(error_of([&] { equal(f, ones({3})); }),
            "equal: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got [2] and [3]");
  EXPECT_EQ(error_of([&] { less(i, 0.5); }), "less: b must be a value of a's dtype; got 0.5 for i32; cast a first");
  EXPECT_EQ(error_of([&] { greater(i, 3e9); }),
            "greater: b must be a value of a's dtype; got 3000000000 for i32; cast a first");
  EXPECT_EQ(error_of([&] { equal(t, 2); }), "equal: b must be a value of a's dtype; got 2 for bool; cast a first");
  EXPECT_EQ(error_of([&] { equal(i, nan); }), "equal: b must be a value of a's dtype; got nan for i32; cast a first");
  EXPECT_EQ(error_of([&] { logical_and(t, f); }), "logical_and: b must be bool; got f32; cast or compare it first");
  EXPECT_EQ(error_of([&] { logical_not(i); }), "logical_not: x must be bool; got i32; cast or compare it first");
  EXPECT_EQ(error_of([&] { less(Tensor(), 1.0); }),
            "less: a must hold a value; got an empty handle; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan
