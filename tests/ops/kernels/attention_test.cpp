// Attention in tiles against its definition in f64, value and gradients: any sizes, strides and bands, lengths, grouped heads,
// keep tensors, biases, dropout, every instruction set.
#include "ops/kernels/attention_case.h"

namespace capstan::kernels::test {
namespace {

template <class T>
class AttentionKernels : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionKernels, Floats);

TYPED_TEST(AttentionKernels, AnySizesStridesBandsAndLengths) {
  using T = TypeParam;
  for_each_target([] {
    Random random(1);
    for (int run = 0; run < 60; ++run) {
      Attention<T> a(random_sizes(random, run % 10 == 0 ? 220 : 60), random, run % 2 == 0);
      randomize_band(a, random);
      SCOPED_TRACE(run);
      expect_definition(a);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TYPED_TEST(AttentionKernels, KeepTensorsBiasesAndDropout) {
  using T = TypeParam;
  for_each_target([] {
    Random random(2);
    for (int run = 0; run < 60; ++run) {
      Attention<T> a(random_sizes(random, run % 10 == 0 ? 150 : 40), random, run % 2 == 0);
      randomize_band(a, random);
      randomize_terms(a, random);
      SCOPED_TRACE(run);
      expect_definition(a);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TYPED_TEST(AttentionKernels, FewQueriesAndKeys) {
  using T = TypeParam;
  for_each_target([] {
    Random random(11);
    for (int run = 0; run < 200; ++run) {
      Sizes s = random_sizes(random, 18);
      if (run % 5 == 0) s.width = pick(random, 60, 66);
      if (run % 7 == 0) s.value_width = pick(random, 60, 66);
      Attention<T> a(s, random, run % 2 == 0);
      a.bias_gradient = false;
      randomize_band(a, random);
      SCOPED_TRACE(run);
      expect_definition(a);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TYPED_TEST(AttentionKernels, FewQueriesWithRowsOfWholeVectors) {
  // Rows that are read and written in place, unless a query has no key, or a key no query.
  using T = TypeParam;
  for_each_target([] {
    Random random(13);
    for (const Index width : {4, 8, 16, 32})
      for (const Index queries : {1, 2, 4, 5, 8})
        for (const Index heads : {2, 4}) {
          SCOPED_TRACE(testing::Message() << width << " " << queries << " " << heads);
          Attention<T> a({2, heads, 2, queries, 7, width, 24 - width % 16}, random);
          a.bias_gradient = false;
          expect_definition(a);
          a.high = 1;
          expect_definition(a);
          a.low = 2;
          a.high = 4;
          expect_definition(a);
          a.lengths.emplace(Shape{2});
          (*a.lengths)[0] = 3;
          (*a.lengths)[1] = 7;
          expect_definition(a);
        }
  });
}

TYPED_TEST(AttentionKernels, ManyShortHeads) {
  // So many that a thread takes several in a row, a whole megabyte of them.
  using T = TypeParam;
  Random random(12);
  for (const Index key_heads : {16, 32}) {
    Attention<T> a({2, 32, key_heads, 50, 50, 40, 48}, random);
    a.high = 0;
    a.bias_gradient = false;
    expect_definition(a);
    expect_same_bytes(Region::attention, [&] { return by_tiles(a).bytes(); });
  }
}

TYPED_TEST(AttentionKernels, WidthsAroundVectorsAndLengthsAroundBlocks) {
  using T = TypeParam;
  Random random(3);
  for (const Index width : {1, 2, 15, 16, 17, 33, 64, 65, 80, 130})
    expect_definition(Attention<T>({1, 2, 1, 50, 49, width, 131 - width}, random));
  for (const Index length : {1, 15, 16, 17, 47, 48, 49, 95, 96, 97, 191, 192, 193, 400}) {
    Attention<T> a({1, 1, 1, length, length, 8, 8}, random);
    a.high = 0;
    expect_definition(a);
    a.low = -20;
    expect_definition(a);
  }
  Attention<T> wide({1, 5, 5, 700, 300, 4, 4}, random);  // more than two panels a task
  expect_definition(wide);
}

TYPED_TEST(AttentionKernels, PartialGradientsOfQueriesAreAddedInPieces) {
  // One head with several blocks of keys has a partial gradient for each; panels this wide are added some at a time.
  for_each_target([] {
    Random random(5);
    Attention<TypeParam> a({1, 1, 1, 430, 100, 120, 8}, random);
    expect_definition(a);
  });
}

TYPED_TEST(AttentionKernels, EmptySizes) {
  using T = TypeParam;
  Random random(4);
  for (const Sizes& s : {Sizes{0, 2, 1, 3, 3, 4, 4}, Sizes{1, 2, 1, 0, 3, 4, 4}, Sizes{1, 2, 1, 3, 0, 4, 4},
                         Sizes{1, 2, 1, 3, 3, 0, 4}, Sizes{1, 2, 1, 3, 3, 4, 0}, Sizes{1, 0, 1, 3, 3, 4, 4}})
    expect_definition(Attention<T>(s, random));
}

TYPED_TEST(AttentionKernels, LargeScoresNeitherOverflowNorVanish) {
  using T = TypeParam;
  Random random(5);
  Attention<T> a({1, 1, 1, 60, 130, 8, 8}, random);
  // Integers, so that scores of up to some thousands are exact.
  for (Array<T>* x : {&a.q, &a.k})
    for (Index i = 0; i < x->elements(); ++i) (*x)[i] = static_cast<T>(pick(random, -20, 20));
  a.scale = 1;
  const Results<T> got = by_tiles(a);
  const Results<double> want = by_definition(a);
  for (Index i = 0; i < want.out.elements(); ++i)
    expect_near(static_cast<double>(got.out[i]), want.out[i], 0, 3000 * epsilon<T>);
  for (Index i = 0; i < want.dv.elements(); ++i)
    expect_near(static_cast<double>(got.dv[i]), want.dv[i], 0, 30000 * epsilon<T>);
}

}  // namespace
}  // namespace capstan::kernels::test
