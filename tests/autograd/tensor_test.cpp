// Tests of tensor.h: immutability, buffers that are given up in place or by copy, reading elements, and errors.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "support/expect.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using ::testing::ElementsAre;

Tensor matrix() { return tensor({{1, 2, 3}, {4, 5, 6}}, DType::f64); }
Tensor transposed(const Tensor& x) { return test::plain::transpose(x); }
Tensor view_of(const Tensor& x, const Layout& layout) { return detail::Access::alias(x, layout); }

// ---- what it is ------------------------------------------------------------------------------------------------------

static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);
static_assert(std::is_same_v<decltype(std::declval<Tensor&>().data<float>()), std::span<const float>>);
static_assert(std::is_same_v<decltype(std::declval<Tensor&>().view()), ConstView>);
static_assert(std::is_same_v<decltype(std::declval<ConstView&>().data<float>()), const float*>);

TEST(Tensor, KnowsItsShapeAndDtype) {
  const Tensor x = matrix();
  EXPECT_TRUE(x.defined());
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.rank(), 2);
  EXPECT_EQ(x.size(0), 2);
  EXPECT_EQ(x.size(-1), 3);
  EXPECT_EQ(x.elements(), 6);
  EXPECT_EQ(x.dtype(), DType::f64);
  EXPECT_TRUE(x.contiguous());
  EXPECT_FALSE(x.recorded());
  EXPECT_FALSE(Tensor().defined());
  EXPECT_THROW((void)x.size(2), Error);
}

TEST(Tensor, CopiesShareTheirStorage) {
  const Tensor x = matrix(), y = x;
  EXPECT_EQ(x.view().bytes, y.view().bytes);
  EXPECT_EQ(x.detach().view().bytes, x.view().bytes);
}

// ---- reading ---------------------------------------------------------------------------------------------------------

TEST(Tensor, ReadsElementsThroughAnyLayout) {
  const Tensor x = transposed(matrix());
  EXPECT_THAT(x.to_vector<double>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(x.to_doubles(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(x.at({2, 1}), 6);
  EXPECT_EQ(x.at({1, 0}), 2);
  const Tensor row = view_of(x, x.layout().sliced(0, 1, 1));
  EXPECT_THAT(row.to_doubles(), ElementsAre(2, 5));
  const Tensor stretched = view_of(row, row.layout().broadcast_to({2, 2}));
  EXPECT_THAT(stretched.to_doubles(), ElementsAre(2, 5, 2, 5));
}

TEST(Tensor, ReadsEveryDtype) {
  EXPECT_THAT(tensor({1, 0}, DType::boolean).to_vector<bool>(), ElementsAre(true, false));
  EXPECT_THAT(tensor({1, -7}, DType::i32).to_vector<std::int32_t>(), ElementsAre(1, -7));
  EXPECT_THAT(tensor({0.5, 2}).to_vector<float>(), ElementsAre(0.5f, 2.f));
  EXPECT_EQ(tensor(true, DType::boolean).item(), 1);
  EXPECT_THAT(transposed(tensor({{1, 0}, {1, 1}}, DType::boolean)).to_vector<bool>(),
              ElementsAre(true, true, false, true));
}

TEST(Tensor, EmptyTensorsHaveNoElements) {
  const Tensor x = zeros({2, 0, 3});
  EXPECT_EQ(x.elements(), 0);
  EXPECT_TRUE(x.to_vector<float>().empty());
  EXPECT_TRUE(x.data<float>().empty());
  EXPECT_TRUE(x.dense().contiguous());
}

TEST(Tensor, DenseSharesWhatIsRowMajorAndCopiesTheRest) {
  const Tensor x = matrix(), t = transposed(x);
  EXPECT_EQ(x.dense().view().bytes, x.view().bytes);
  const Tensor d = t.dense();
  EXPECT_NE(d.view().bytes, x.view().bytes);
  EXPECT_TRUE(d.contiguous());
  expect_exactly(d, {3, 2}, {1, 4, 2, 5, 3, 6});
  Tape tape;
  EXPECT_FALSE(tape.watch(x).dense().recorded());
}

TEST(Tensor, DataIsASpanOfContiguousElements) {
  const Tensor x = matrix();
  EXPECT_THAT(x.data<double>(), ElementsAre(1, 2, 3, 4, 5, 6));
  const Tensor row = view_of(x, x.layout().sliced(0, 1, 1));
  EXPECT_THAT(row.data<double>(), ElementsAre(4, 5, 6));
}

// ---- errors, to the letter -------------------------------------------------------------------------------------------

TEST(TensorErrors, Reading) {
  const Tensor x = matrix();
  EXPECT_EQ(error_of([&] { (void)x.item(); }), "item: the tensor must have exactly one element; got shape [2, 3]");
  EXPECT_EQ(error_of([&] { (void)x.at({2, 0}); }), "at: the index must lie inside the shape [2, 3]; got [2, 0]");
  EXPECT_EQ(error_of([&] { (void)x.at({0, -1}); }), "at: the index must lie inside the shape [2, 3]; got [0, -1]");
  EXPECT_EQ(error_of([&] { (void)x.at({0}); }), "at: the index must lie inside the shape [2, 3]; got [0]");
  EXPECT_EQ(error_of([&] { (void)x.at({0, 0, 0}); }), "at: the index must lie inside the shape [2, 3]; got [0, 0, 0]");
  EXPECT_EQ(error_of([&] { (void)x.to_vector<float>(); }),
            "to_vector: the element type must be the dtype's; got f32 for a tensor of f64");
  EXPECT_EQ(error_of([&] { (void)x.data<float>(); }),
            "data: the element type must be the dtype's; got f32 for a tensor of f64");
  EXPECT_EQ(error_of([&] { (void)transposed(x).data<double>(); }),
            "data: the tensor must be contiguous; got a strided view of shape [3, 2]; call dense() first");
}

TEST(TensorErrors, EmptyHandles) {
  const Tensor x;
  const std::string rest = ": the tensor must hold a value; got an empty handle; assign a tensor to it first";
  EXPECT_EQ(error_of([&] { (void)x.item(); }), "item" + rest);
  EXPECT_EQ(error_of([&] { (void)x.at({}); }), "at" + rest);
  EXPECT_EQ(error_of([&] { (void)x.dense(); }), "dense" + rest);
  EXPECT_EQ(error_of([&] { (void)x.to_doubles(); }), "to_doubles" + rest);
  EXPECT_EQ(error_of([&] { (void)x.to_vector<float>(); }), "to_vector" + rest);
  EXPECT_EQ(error_of([&] { (void)x.data<float>(); }), "data" + rest);
  EXPECT_EQ(error_of([&] { (void)Tensor().to_buffer(); }), "to_buffer" + rest);
  EXPECT_FALSE(x.recorded());
  EXPECT_FALSE(x.detach().defined());
}

TEST(TensorErrors, Buffers) {
  Buffer buffer({2}, DType::f32);
  EXPECT_EQ(error_of([&] { (void)buffer.data<double>(); }),
            "data: the element type must be the dtype's; got f64 for a buffer of f32");
  EXPECT_EQ(error_of([] {
              Buffer({Index{1} << 30, Index{1} << 30}, DType::f64);
            }),
            "tensor: at most 2^60 bytes; got 1152921504606846976 elements of f64, shape [1073741824, 1073741824]");
}

// ---- buffers ---------------------------------------------------------------------------------------------------------

TEST(Buffers, BecomeTensorsWithoutACopy) {
  Buffer buffer({2, 2}, DType::f32);
  std::ranges::fill(buffer.data<float>(), 3.f);
  const void* memory = buffer.view().bytes;
  const Tensor x = std::move(buffer);
  EXPECT_EQ(x.view().bytes, memory);
  expect_exactly(x, {2, 2}, {3, 3, 3, 3});
}

TEST(Buffers, AreGivenUpInPlaceByASoleOwner) {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{100, 3}}) {
    Tensor x = ones(shape);
    const void* memory = x.view().bytes;
    Buffer buffer = std::move(x).to_buffer();
    EXPECT_EQ(buffer.view().bytes, memory);
    EXPECT_EQ(buffer.shape(), shape);
    EXPECT_FALSE(x.defined());  // NOLINT(bugprone-use-after-move): given up means empty
  }
}

TEST(Buffers, AreCopiesWhereSomebodyElseLooks) {  // CASES 27
  Tensor x = matrix();
  const Tensor other = x;
  Buffer buffer = std::move(x).to_buffer();
  EXPECT_NE(buffer.view().bytes, other.view().bytes);
  std::ranges::fill(buffer.data<double>(), -1.0);
  expect_exactly(other, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_FALSE(x.defined());  // NOLINT(bugprone-use-after-move): given up means empty
}

TEST(Buffers, AreCopiesWhereAViewLooks) {  // CASES 27
  Tensor x = matrix();
  const Tensor view = transposed(x);
  Buffer buffer = std::move(x).to_buffer();
  std::ranges::fill(buffer.data<double>(), -1.0);
  expect_exactly(view, {3, 2}, {1, 4, 2, 5, 3, 6});
}

TEST(Buffers, OfViewsAreRowMajorCopies) {
  Buffer turned = transposed(matrix()).to_buffer();  // the view is the only owner, but not row-major
  EXPECT_THAT(turned.data<double>(), ElementsAre(1, 4, 2, 5, 3, 6));
  Tensor x = matrix();
  Tensor row = view_of(x, x.layout().sliced(0, 1, 1));
  x = Tensor();
  Buffer part = std::move(row).to_buffer();  // the only owner, row-major, but not whole
  EXPECT_EQ(part.elements(), 3);
  EXPECT_THAT(part.data<double>(), ElementsAre(4, 5, 6));
}

TEST(Buffers, OfARecordedTensorAreCopiesWhileTheTapeNeedsIt) {
  Tape tape;
  Tensor y = test::plain::tanh(tape.watch(ones({2}, DType::f64)));  // its rule reads y
  const void* memory = y.view().bytes;
  Buffer buffer = std::move(y).to_buffer();
  EXPECT_NE(buffer.view().bytes, memory);
}

TEST(Buffers, AreNeverRecorded) {
  Tape tape;
  const Tensor x = std::move(tape.watch(ones({2}))).to_buffer();
  EXPECT_FALSE(x.recorded());
}

}  // namespace
}  // namespace capstan
