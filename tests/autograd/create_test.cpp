// Tests of create.h: tensors from nested lists and memory, constant and counting tensors, random ones.
#include <capstan/autograd/create.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using ::testing::ElementsAre;

// ---- lists -----------------------------------------------------------------------------------------------------------

TEST(Create, FromNestedLists) {
  expect_exactly(tensor(3), {}, {3});
  expect_exactly(tensor({1, 2.5, -3}), {3}, {1, 2.5, -3});
  expect_exactly(tensor({{1, 2}, {3, 4}}), {2, 2}, {1, 2, 3, 4});
  expect_exactly(tensor({{{1}, {2}}, {{3}, {4}}, {{5}, {6}}}), {3, 2, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor(3).dtype(), DType::f32);
  EXPECT_EQ(tensor({1, 2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(tensor({0.1}, DType::f64).item(), 0.1);
  EXPECT_EQ(tensor({0.1}).item(), 0.1f);
}

TEST(Create, FromListsOfOtherDtypes) {
  expect_exactly(tensor({1, -2}, DType::i32), {2}, {1, -2});
  expect_exactly(tensor({true, false}, DType::boolean), {2}, {1, 0});
  EXPECT_EQ(tensor(-2147483648.0, DType::i32).item(), -2147483648.0);
}

TEST(Create, FromListsWithoutElements) { EXPECT_EQ(tensor({{}, {}}).shape(), (Shape{2, 0})); }

TEST(Create, RaggedListsAreRefused) {
  EXPECT_EQ(error_of([] {
              tensor({{1, 2}, {3}});
            }),
            "tensor: lists of one level must have one length; got a list of 1 where [2, 2] was begun at depth 1");
  EXPECT_EQ(error_of([] {
              tensor({{1, 2}, 3});
            }),
            "tensor: lists of one level must have one length; got a number where [2, 2] was begun at depth 1");
  EXPECT_EQ(error_of([] {
              tensor({1, {2, 3}});
            }),
            "tensor: lists of one level must have one length; got a list of 2 where [2] was begun at depth 1");
}

TEST(Create, NumbersThatDoNotFitAreRefused) {
  EXPECT_EQ(error_of([] { tensor({0.5}, DType::i32); }),
            "tensor: an i32 element must be a whole number within 32 bits; got 0.5");
  EXPECT_EQ(error_of([] { full({2}, 2147483648.0, DType::i32); }),
            "full: an i32 element must be a whole number within 32 bits; got 2147483648");
  EXPECT_NE(error_of([] { tensor(std::numeric_limits<double>::quiet_NaN(), DType::i32); }), "no error");
}

// ---- memory ----------------------------------------------------------------------------------------------------------

TEST(Create, FromMemoryCopies) {
  std::vector<double> elements = {1, 2, 3, 4, 5, 6};
  const Tensor x = tensor(elements, {2, 3});
  elements[0] = 100;
  EXPECT_EQ(x.dtype(), DType::f64);
  expect_exactly(x, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor(std::vector<float>{1}, {1}).dtype(), DType::f32);
  EXPECT_EQ(tensor(std::vector<std::int32_t>{1}, {}).dtype(), DType::i32);
  const bool flags[] = {true, false};
  expect_exactly(tensor(std::span<const bool>(flags), {2}), {2}, {1, 0});
  EXPECT_EQ(error_of([&] { tensor(elements, {7}); }),
            "tensor: the number of elements must be the shape's; got 6 for shape [7]");
}

// ---- constants and ranges --------------------------------------------------------------------------------------------

TEST(Create, Constants) {
  expect_exactly(full({2, 2}, 1.5), {2, 2}, {1.5, 1.5, 1.5, 1.5});
  expect_exactly(zeros({2}, DType::i32), {2}, {0, 0});
  expect_exactly(ones({2}, DType::boolean), {2}, {1, 1});
  expect_exactly(ones({}), {}, {1});
  EXPECT_EQ(ones({3, 0}).elements(), 0);
  expect_exactly(eye(3), {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
}

TEST(Create, Ranges) {
  expect_exactly(arange(3), {3}, {0, 1, 2});
  EXPECT_EQ(arange(3).dtype(), DType::i32);
  expect_exactly(arange(1, 2, 0.25), {4}, {1, 1.25, 1.5, 1.75});
  expect_exactly(arange(3, 0, -2), {2}, {3, 1});
  EXPECT_EQ(arange(3, 0).elements(), 0);
  EXPECT_EQ(arange(0).elements(), 0);
  EXPECT_EQ(error_of([] { arange(0, 1, 0); }),
            "arange: start, stop and step must be finite, and step not 0; got 0, 1, 0");
  EXPECT_EQ(error_of([] { arange(0, 1e300, 1); }), "arange: at most 1e15 elements; got 1e+300");
}

// ---- random ----------------------------------------------------------------------------------------------------------

TEST(Create, RandomTensorsFollowTheKeyAlone) {
  const Key key{.seed = 3};
  const Tensor x = normal(key, {4, 5}, 0, 1, DType::f64), y = normal(key, {20}, 0, 1, DType::f64);
  EXPECT_EQ(x.to_doubles(), y.to_doubles());
  EXPECT_NE(x.to_doubles(), normal(Key{.seed = 4}, {4, 5}, 0, 1, DType::f64).to_doubles());
  EXPECT_EQ(normal(key, {2}).dtype(), DType::f32);
}

TEST(Create, RandomTensorsHaveTheirMoments) {
  constexpr Index count = 100'000;
  const std::vector<double> u = uniform(Key{.seed = 1}, {count}, -1, 3, DType::f64).to_doubles();
  const std::vector<double> z = normal(Key{.seed = 2}, {count}, 5, 2, DType::f64).to_doubles();
  double mean_u = 0, mean_z = 0, square_z = 0;
  for (const double element : u) {
    EXPECT_TRUE(element >= -1 && element < 3);
    mean_u += element / count;
  }
  for (const double element : z) mean_z += element / count;
  for (const double element : z) square_z += (element - mean_z) * (element - mean_z) / count;
  EXPECT_NEAR(mean_u, 1, 0.02);
  EXPECT_NEAR(mean_z, 5, 0.03);
  EXPECT_NEAR(std::sqrt(square_z), 2, 0.02);
}

TEST(Create, RandomTensorsMustBeFloats) {
  EXPECT_EQ(error_of([] { uniform(Key{}, {2}, 0, 1, DType::i32); }), "uniform: the dtype must be f32 or f64; got i32");
  EXPECT_EQ(error_of([] { normal(Key{}, {2}, 0, 1, DType::boolean); }),
            "normal: the dtype must be f32 or f64; got bool");
  EXPECT_EQ(error_of([] { normal(Key{}, {2}, 0, -1); }),
            "normal: mean must be finite, the deviation finite and not negative; got 0 and -1");
}

}  // namespace
}  // namespace capstan
