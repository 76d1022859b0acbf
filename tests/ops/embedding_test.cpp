// Embedding and its transpose: values, padding rows, repeated ids on many threads, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/rearrange.h>

#include <cstring>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor ids(const std::vector<std::int32_t>& list, const Shape& shape) { return tensor(list, shape); }

TEST(Embedding, PicksRows) {
  const Tensor table = tensor({{1, 2}, {3, 4}, {5, 6}});
  expect_exactly(embedding(table, ids({2, 0, 2}, {3})), {3, 2}, {5, 6, 1, 2, 5, 6});
  expect_exactly(embedding(table, ids({1, 1}, {2, 1})), {2, 1, 2}, {3, 4, 3, 4});
  expect_exactly(embedding(table, ids({1}, {})), {2}, {3, 4});
  expect_exactly(embedding(table, ids({}, {0})), {0, 2}, {});
}

TEST(Embedding, RepeatedIdsAddUp) {
  for (const bool create_graph : {false, true}) {
    Tape tape;
    const Tensor table = tape.watch(ones({3, 2}));
    const Tensor y = embedding(table, ids({2, 0, 2}, {3}));
    const Gradients g = tape.backward(y, tensor({{1, 2}, {3, 4}, {5, 6}}), {.create_graph = create_graph});
    expect_exactly(g.of(table).detach(), {3, 2}, {3, 4, 0, 0, 6, 8});
  }
}

TEST(Embedding, ThePaddingRowIsReadButNotTrained) {
  for (const bool create_graph : {false, true}) {
    Tape tape;
    const Tensor table = tape.watch(tensor({{1, 2}, {7, 8}, {5, 6}}));
    const Tensor y = embedding(table, ids({1, 2, 1}, {3}), 1);
    expect_exactly(y, {3, 2}, {7, 8, 5, 6, 7, 8});
    const Gradients g = tape.backward(y, ones({3, 2}), {.create_graph = create_graph});
    expect_exactly(g.of(table).detach(), {3, 2}, {0, 0, 0, 0, 1, 1});
  }
}

TEST(EmbeddingTranspose, AddsRowsBack) {
  const Tensor x = tensor({{1, 2}, {3, 4}, {5, 6}});
  expect_exactly(embedding_transpose(x, ids({2, 0, 2}, {3}), 4), {4, 2}, {3, 4, 0, 0, 6, 8, 0, 0});
  expect_exactly(embedding_transpose(x, ids({2, 0, 2}, {3}), 4, 2), {4, 2}, {3, 4, 0, 0, 0, 0, 0, 0});
}

TEST(Embedding, SumsManyRepeatsExactlyOnAnyNumberOfThreads) {
  constexpr Index count = 100000;
  std::vector<std::int32_t> list;
  std::vector<double> expected(3 * 4, 0.0);
  std::uint32_t state = 1;
  for (Index i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const auto id = static_cast<std::int32_t>((state >> 16) % 3);
    list.push_back(id);
    for (std::size_t c = 0; c < 4; ++c) expected[static_cast<std::size_t>(id) * 4 + c] += 1;
  }
  const Tensor places = ids(list, {count});
  const Tensor counted = ones({count, 4}), noise = normal(Key{.seed = 3}, {count, 4});
  const int threads = kernels::thread_count();
  kernels::set_thread_count(1);
  const Tensor serial = embedding_transpose(noise, places, 3);
  kernels::set_thread_count(8);
  for (int run = 0; run < 100; ++run) {
    expect_exactly(embedding_transpose(counted, places, 3), {3, 4}, expected);
    const Tensor again = embedding_transpose(noise, places, 3);
    ASSERT_EQ(std::memcmp(again.data<float>().data(), serial.data<float>().data(), 12 * sizeof(float)), 0);
  }
  kernels::set_thread_count(threads);
}

TEST(Embedding, NamesAnIdOutsideTheTable) {
  const Tensor table = zeros({64, 2});
  const auto error = [&](const Tensor& places) { return error_of([&] { embedding(table, places); }); };
  EXPECT_EQ(error(ids({1, 2, 3, 71, 5, 99}, {1, 6})), "embedding: ids must be in [0, 64); got 71 at [0, 3]");
  EXPECT_EQ(error(ids({0, -1}, {2})), "embedding: ids must be in [0, 64); got -1 at [1]");
  EXPECT_EQ(error(ids({64}, {1, 1})), "embedding: ids must be in [0, 64); got 64 at [0, 0]");
  EXPECT_EQ(error(ids({999999999}, {})), "embedding: ids must be in [0, 64); got 999999999 at []");
  EXPECT_EQ(error(transpose(ids({0, 1, 70, 3}, {2, 2}))), "embedding: ids must be in [0, 64); got 70 at [0, 1]");
  EXPECT_EQ(error_of([&] {
              embedding_transpose(zeros({2, 2}), ids({0, 5}, {2}), 5);
            }),
            "embedding_transpose: ids must be in [0, 5); got 5 at [1]");
}

TEST(Embedding, AnErrorLeavesTheTapeAlone) {
  Tape tape;
  const Tensor table = tape.watch(zeros({4, 2}));
  const Index size = tape.size();
  EXPECT_THROW(embedding(table, ids({4}, {1})), Error);
  EXPECT_EQ(tape.size(), size);
}

TEST(Embedding, NamesWhatDoesNotFit) {
  const Tensor table = zeros({3, 2}), places = ids({0}, {1});
  EXPECT_EQ(error_of([&] { embedding(zeros({3}), places); }), "embedding: table must be [V, C]; got [3]");
  EXPECT_EQ(error_of([&] { embedding(table, zeros({1})); }), "embedding: ids must be i32; got f32; cast it first");
  EXPECT_EQ(error_of([&] {
              embedding(zeros({3, 2}, DType::i32), places);
            }),
            "embedding: table must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { embedding(table, places, 3); }), "embedding: padding_id must be in [0, 3); got 3");
  EXPECT_EQ(error_of([&] {
              embedding_transpose(zeros({2, 2}), places, 3);
            }),
            "embedding_transpose: x must be [ids..., C]; got x [2, 2] and ids [1]");
  EXPECT_EQ(error_of([&] {
              embedding_transpose(zeros({1, 2}), places, -1);
            }),
            "embedding_transpose: rows must not be negative; got -1");
  EXPECT_EQ(error_of([&] {
              embedding_transpose(zeros({1, 2}), places, 3, -2);
            }),
            "embedding_transpose: padding_id must be in [0, 3); got -2");
}

}  // namespace
}  // namespace capstan::test
