// ops/gather.h: values by hand, repeats, memory layouts, threads, errors. Gradient checks: samples/gather_samples.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/gather.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <rapidcheck/gtest.h>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::test {
namespace {

Tensor f64(const NestedList& list) { return tensor(list, DType::f64); }
Tensor ids(const NestedList& list) { return tensor(list, DType::i32); }

TEST(Gather, TakesAlongAnAxis) {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  expect_exactly(gather(x, 1, ids({{2, 0}, {1, 1}})), {2, 2}, {3, 1, 5, 5});
  expect_exactly(gather(x, 0, ids({{1, 0, 1}})), {1, 3}, {4, 2, 6});
  expect_exactly(gather(x, -1, ids({{0}, {2}})), {2, 1}, {1, 6});
  expect_exactly(gather(transpose(x), 0, transpose(ids({{2, 0}, {1, 1}}))), {2, 2}, {3, 5, 1, 5});
  expect_exactly(gather(x > 2.0, 1, ids({{2, 0}, {1, 1}})), {2, 2}, {1, 0, 1, 1});
  expect_exactly(gather(arange(5), 0, ids({4, 4, 0})), {3}, {4, 4, 0});
  expect_exactly(gather(zeros({2, 0}), 1, zeros({2, 0}, DType::i32)), {2, 0}, {});
}

TEST(Gather, TheGradientOfRepeatedIdsAddsUp) {
  Tape tape;
  const Tensor x = tape.watch(f64({{1, 2, 3}, {4, 5, 6}}));
  const Tensor y = gather(x, 1, ids({{2, 0, 2}, {1, 1, 1}}));
  expect_exactly(tape.backward(y, f64({{1, 2, 4}, {1, 2, 4}})).of(x), {2, 3}, {2, 0, 5, 0, 7, 0});
}

TEST(ScatterAdd, AddsBackAlongAnAxis) {
  const Tensor src = f64({{1, 2, 4}, {8, 16, 32}});
  expect_exactly(scatter_add(src, 1, ids({{2, 0, 2}, {1, 1, 1}}), 4), {2, 4}, {2, 0, 5, 0, 0, 56, 0, 0});
  expect_exactly(scatter_add(src, 0, ids({{1, 0, 1}, {1, 1, 0}}), 2), {2, 3}, {0, 2, 32, 9, 16, 4});
  expect_exactly(scatter_add(zeros({0}), 0, zeros({0}, DType::i32), 2), {2}, {0, 0});
  Tape tape;
  const Tensor watched = tape.watch(src);
  const Tensor y = scatter_add(watched, 1, ids({{2, 0, 2}, {1, 1, 1}}), 3);
  expect_exactly(tape.backward(y, f64({{1, 2, 3}, {4, 5, 6}})).of(watched), {2, 3}, {3, 1, 3, 5, 5, 5});
}

TEST(ScatterAdd, KeepsTheIdsAloneForBackward) {
  Tape tape;
  const Tensor src = tape.watch(zeros({4, 100}, DType::f64));
  const Tensor places = zeros({4, 100}, DType::i32);
  const Tensor y = gather(scatter_add(src, 1, places, 3), 1, zeros({4, 2}, DType::i32));
  EXPECT_EQ(tape.saved_bytes(), (4 * 100 + 4 * 2) * 4);
}

RC_GTEST_PROP(Gather, IsTheTransposeOfScatterAdd, ()) {
  // ⟨gather(x, ids), y⟩ = ⟨x, scatter_add(y, ids)⟩ for whole numbers, exactly.
  Shape shape;
  for (int rank = *rc::gen::inRange(1, 5); rank > 0; --rank) shape.push_back(*rc::gen::inRange<Index>(1, 5));
  const int axis = *rc::gen::inRange(0, shape.rank());
  const Index size = shape[axis];
  Shape taken = shape;
  taken.set(axis, *rc::gen::inRange<Index>(0, 6));
  const auto whole = [](std::uint64_t seed, const Shape& of, double low, double high) {
    std::vector<double> values = uniform(Key{.seed = seed}, of, low, high, DType::f64).to_doubles();
    for (double& value : values) value = static_cast<double>(static_cast<int>(value));
    return values;
  };
  const Tensor x = tensor(whole(1, shape, -9, 9), shape), y = tensor(whole(2, taken, -9, 9), taken);
  std::vector<std::int32_t> places;
  for (const double place : whole(3, taken, 0, static_cast<double>(size)))
    places.push_back(static_cast<std::int32_t>(place));
  const Tensor at = tensor(places, taken);
  RC_ASSERT(sum(gather(x, axis, at) * y).item() == sum(x * scatter_add(y, axis, at, size)).item());
}

TEST(ScatterAdd, ManyRepeatsHaveTheSameBytesOnAnyNumberOfThreads) {
  const Tensor noise = normal(Key{.seed = 3}, {64, 3000, 5});
  std::vector<std::int32_t> list;
  std::uint32_t state = 1;
  for (Index i = 0; i < noise.elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    list.push_back(static_cast<std::int32_t>((state >> 16) % 3));
  }
  const Tensor places = tensor(list, noise.shape());
  const int threads = kernels::thread_count();
  for (const int axis : {0, 1, 2}) {
    kernels::set_thread_count(1);
    const Tensor serial = scatter_add(noise, axis, places, 3), back = gather(serial, axis, places);
    for (const int count : {2, 4, 8}) {
      kernels::set_thread_count(count);
      const std::uint64_t before = kernels::parallel_regions(kernels::Region::embedding);
      EXPECT_TRUE(same_bits(scatter_add(noise, axis, places, 3), serial)) << count << " threads, axis " << axis;
      EXPECT_TRUE(same_bits(gather(serial, axis, places), back)) << count << " threads, axis " << axis;
      EXPECT_EQ(kernels::parallel_regions(kernels::Region::embedding), before + 2);
    }
    kernels::set_thread_count(threads);
    // Every element landed somewhere, once.
    EXPECT_NEAR(sum(serial).item(), sum(noise).item(), 1e-2);
    expect_exactly(sum(scatter_add(ones(noise.shape()), axis, places, 3)), {}, {static_cast<double>(noise.elements())});
  }
}

TEST(Gather, NamesAnIdOutsideTheAxis) {
  const Tensor x = zeros({2, 5});
  EXPECT_EQ(error_of([&] { gather(x, 1, ids({{0, 1}, {2, -1}})); }), "gather: ids must be in [0, 5); got -1 at [1, 1]");
  EXPECT_EQ(error_of([&] { gather(x, 0, ids({{0, 1, 0, 2, 0}})); }), "gather: ids must be in [0, 2); got 2 at [0, 3]");
  EXPECT_EQ(error_of([&] { gather(zeros({0}), 0, ids({0})); }), "gather: ids must be in [0, 0); got 0 at [0]");
  EXPECT_EQ(error_of([] {
              scatter_add(zeros({3}), 0, ids({0, 999999999, 1}), 4);
            }),
            "scatter_add: ids must be in [0, 4); got 999999999 at [1]");
  Tape tape;
  const Tensor watched = tape.watch(x);
  const Index size = tape.size();
  EXPECT_THROW(gather(watched, 1, ids({{5}, {0}})), Error);
  EXPECT_EQ(tape.size(), size);
}

TEST(Gather, NamesWhatDoesNotFit) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(error_of([&] {
              gather(x, 1, zeros({3, 2}, DType::i32));
            }),
            "gather: ids must have x's sizes but for axis 1; got ids [3, 2] for x [2, 3]");
  EXPECT_EQ(error_of([&] { gather(x, 1, zeros({2}, DType::i32)); }),
            "gather: ids must have x's sizes but for axis 1; got ids [2] for x [2, 3]");
  EXPECT_EQ(error_of([&] {
              gather(x, 2, zeros({2, 3}, DType::i32));
            }),
            "gather: axis must be in [-2, 2); got 2 for shape [2, 3]");
  EXPECT_EQ(error_of([&] { gather(x, 1, x); }), "gather: ids must be i32; got f32; cast it first");
  EXPECT_EQ(error_of([&] { gather(Tensor(), 1, x); }),
            "gather: x must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] {
              scatter_add(x, 1, zeros({2, 2}, DType::i32), 3);
            }),
            "scatter_add: ids must have src's shape; got ids [2, 2] for src [2, 3]");
  EXPECT_EQ(error_of([&] {
              scatter_add(x, 1, zeros({2, 3}, DType::i32), -1);
            }),
            "scatter_add: size must not be negative; got -1");
  EXPECT_EQ(error_of([&] { scatter_add(arange(2), 0, arange(2), 2); }),
            "scatter_add: src must be f32 or f64; got i32; cast it first");
}

}  // namespace
}  // namespace capstan::test
