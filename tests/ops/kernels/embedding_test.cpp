#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/embedding.h>

namespace capstan::kernels::test {
namespace {

using Ids = Array<std::int32_t>;

TEST(EmbeddingKernels, GatherAndScatterForAnyStrides) {
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const Index rows = pick(random, 1, 20), columns = pick(random, 0, 300);
    const Shape where = random_shape(random, 3, 6);
    Ids ids = strided<std::int32_t>(where, random);
    for (Index j = 0; j < ids.elements(); ++j) ids[j] = static_cast<std::int32_t>(pick(random, 0, rows - 1));
    Shape shape = where;
    shape.push_back(columns);
    Array<double> table = strided<double>(Shape{rows, columns}, random), out(shape), dtable(Shape{rows, columns});
    Array<double> dout = strided<double>(shape, random);
    randomize(table, random), randomize(dout, random);
    gather_rows(table.in(), ids.in(), out.out());
    const std::optional<std::int64_t> skip = i % 2 ? std::optional<std::int64_t>(0) : std::nullopt;
    dtable.fill_all(99);
    scatter_rows(dout.in(), ids.in(), skip, false, dtable.out());
    std::vector<double> want(static_cast<std::size_t>(rows * columns));
    for (Index p = 0; p < ids.elements(); ++p)
      for (Index c = 0; c < columns; ++c) {
        ASSERT_EQ(out[p * columns + c], table[ids[p] * columns + c]);
        if (!skip || ids[p] != *skip) want[static_cast<std::size_t>(ids[p] * columns + c)] += dout[p * columns + c];
      }
    // In order of position, so equal to the last bit.
    for (Index j = 0; j < rows * columns; ++j) ASSERT_EQ(dtable[j], want[static_cast<std::size_t>(j)]);

    // Onto what is there: a sum that starts from it.
    Array<double> sum = dtable.dense();
    scatter_rows(dout.in(), ids.in(), skip, true, sum.out());
    for (Index p = 0; p < ids.elements(); ++p)
      for (Index c = 0; c < columns; ++c)
        if (!skip || ids[p] != *skip) dtable[ids[p] * columns + c] += dout[p * columns + c];
    for (Index j = 0; j < rows * columns; ++j) ASSERT_EQ(sum[j], dtable[j]);
  }
}

TEST(EmbeddingKernels, ManyPositionsOfFewIdsCountExactlyWithTheSameBytes) {
  Random random(2);
  Ids ids(Shape{100000});
  double counts[3] = {};
  for (Index i = 0; i < ids.elements(); ++i) {
    ids[i] = static_cast<std::int32_t>(pick(random, 0, 2));
    ++counts[ids[i]];
  }
  Array<float> ones(Shape{100000, 8});
  ones.fill_all(1);
  expect_same_bytes(Region::embedding, [&] {
    Array<float> dtable(Shape{3, 8});
    scatter_rows(ones.in(), ids.in(), std::nullopt, false, dtable.out());
    for (Index j = 0; j < 24; ++j) EXPECT_EQ(static_cast<double>(dtable[j]), counts[j / 8]);
    return dtable.bytes();
  });
  Array<float> table(Shape{3, 8});
  randomize(table, random);
  expect_same_bytes(Region::embedding, [&] {
    Array<float> out(Shape{100000, 8});
    gather_rows(table.in(), ids.in(), out.out());
    return out.bytes();
  });
}

TEST(EmbeddingKernels, FindOutsideTellsTheFirstBadId) {
  Ids ids(Shape{2, 2});
  ids[0] = 0, ids[1] = 3, ids[2] = -1, ids[3] = 999999999;
  EXPECT_EQ(find_outside(ids.in(), 4), 2);
  EXPECT_EQ(find_outside(ids.in(), 3), 1);
  EXPECT_EQ(find_outside(ids.in(), 4, -1), 3);
  EXPECT_EQ(find_outside(ids.in(), 1000000000, -1), -1);
  EXPECT_EQ(find_outside(Ids(Shape{0}).in(), 0), -1);
}

TEST(EmbeddingKernels, EmptySizes) {
  Array<float> table(Shape{3, 2}), none(Shape{0, 2});
  table.fill_all(5);
  scatter_rows(none.in(), Ids(Shape{0}).in(), std::nullopt, false, table.out());
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(table[i], 0);
  gather_rows(table.in(), Ids(Shape{0}).in(), none.out());
}

}  // namespace
}  // namespace capstan::kernels::test
