// Tests of autograd/layout.h: every view against the list of storage positions that it must name, in row-major order.
#include <capstan/autograd/layout.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

namespace capstan {
namespace {

using Positions = std::vector<Index>;

/// Storage position of each element, row-major.
Positions positions(const Layout& layout) {
  Positions result{layout.offset()};
  for (int axis = 0; axis < layout.rank(); ++axis) {
    Positions next;
    for (const Index start : result)
      for (Index i = 0; i < layout.size(axis); ++i) next.push_back(start + i * layout.stride(axis));
    result = std::move(next);
  }
  return result;
}

Shape shape_of(const std::vector<Index>& sizes) { return Shape(std::span<const Index>(sizes)); }

/// Whether positions read in the order of `shape` follow from some strides, and which offset and strides: the brute
/// force against which reshaped() is held. Each stride is read off at the axis's first step, then all is compared.
bool expressible(const Positions& wanted, const Shape& shape) {
  if (wanted.empty()) return true;
  std::vector<Index> strides(static_cast<std::size_t>(shape.rank()), 0);
  std::size_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] > 1) strides[static_cast<std::size_t>(axis)] = wanted[step] - wanted[0];
    step *= static_cast<std::size_t>(shape[axis]);
  }
  return positions(Layout(shape, strides.data(), wanted[0])) == wanted;
}

TEST(Layout, DefaultIsAScalar) {
  const Layout scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_TRUE(scalar.contiguous());
  EXPECT_EQ(positions(scalar), Positions{0});
}

TEST(Layout, FromAShapeIsRowMajor) {
  const Layout layout(Shape{2, 3, 4});
  EXPECT_EQ(layout.stride(0), 12);
  EXPECT_EQ(layout.stride(1), 4);
  EXPECT_EQ(layout.stride(2), 1);
  EXPECT_EQ(layout.offset(), 0);
  EXPECT_TRUE(layout.contiguous());
  Positions all(24);
  std::iota(all.begin(), all.end(), Index{0});
  EXPECT_EQ(positions(layout), all);
}

TEST(Layout, CopiesAllEightAxes) {
  const Layout layout(Shape{2, 1, 2, 1, 2, 1, 2, 3});
  Layout copy;
  copy = layout;
  EXPECT_EQ(copy, layout);
  EXPECT_EQ(Layout(layout), layout);
}

TEST(Layout, EqualityLooksAtShapeStridesAndOffset) {
  const Layout layout(Shape{2, 2});
  const Index strides[] = {2, 1}, other_strides[] = {1, 2};
  EXPECT_EQ(Layout(Shape({2, 2}), strides, 0), layout);
  EXPECT_FALSE(Layout(Shape({2, 2}), strides, 1) == layout);
  EXPECT_FALSE(Layout(Shape({2, 2}), other_strides, 0) == layout);
  EXPECT_FALSE(Layout(Shape({4})) == layout);
}

TEST(Layout, PermutedAndTransposed) {
  const Layout layout(Shape{2, 3, 4});
  const int axes[] = {2, 0, 1};
  const Layout permuted = layout.permuted(axes);
  EXPECT_EQ(permuted.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(permuted.stride(0), 1);
  EXPECT_EQ(permuted.stride(1), 12);
  EXPECT_EQ(permuted.stride(2), 4);
  EXPECT_FALSE(permuted.contiguous());

  const Layout matrix(Shape{2, 3});
  EXPECT_EQ(positions(matrix.transposed(0, 1)), (Positions{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(matrix.transposed(0, 1).transposed(1, 0), matrix);
  EXPECT_EQ(matrix.transposed(1, 1), matrix);
}

TEST(Layout, Sliced) {
  const Layout layout(Shape{3, 5});
  EXPECT_EQ(positions(layout.sliced(0, 1, 2)), (Positions{5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(positions(layout.sliced(1, 1, 2, 3)), (Positions{1, 4, 6, 9, 11, 14}));
  EXPECT_EQ(positions(layout.sliced(0, 2, 1).sliced(1, 4, 1)), Positions{14});
  EXPECT_TRUE(layout.sliced(0, 1, 2).contiguous());
  EXPECT_FALSE(layout.sliced(1, 0, 2).contiguous());
}

TEST(Layout, EmptySliceStaysInsideTheStorage) {
  const Layout empty = Layout(Shape{3, 5}).sliced(0, 3, 0);
  EXPECT_EQ(empty.shape(), (Shape{0, 5}));
  EXPECT_EQ(empty.offset(), 0);
  EXPECT_TRUE(empty.contiguous());
}

TEST(Layout, BroadcastTo) {
  const Layout row = Layout(Shape{4, 3}).sliced(0, 1, 1);
  EXPECT_EQ(positions(row.broadcast_to({2, 3})), (Positions{3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(positions(row.transposed(0, 1).broadcast_to({3, 2})), (Positions{3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(positions(Layout().broadcast_to({2, 2})), (Positions{0, 0, 0, 0}));
  EXPECT_EQ(row.broadcast_to({1, 3}), row);
  EXPECT_EQ(row.broadcast_to({0, 3}).elements(), 0);
  EXPECT_FALSE(row.broadcast_to({2, 3}).contiguous());
}

TEST(Layout, ContiguousIgnoresAxesOfSizeOne) {
  const Index strides[] = {100, 3, -7, 1};
  EXPECT_TRUE(Layout(Shape({1, 2, 1, 3}), strides, 5).contiguous());
  const Index reversed[] = {-1};
  EXPECT_FALSE(Layout(Shape({2}), reversed, 1).contiguous());
  const Index any[] = {17, 99};
  EXPECT_TRUE(Layout(Shape({0, 2}), any, 0).contiguous());
  EXPECT_TRUE(Layout(Shape({2, 0}), any, 0).contiguous());
}

TEST(Layout, ReshapedKeepsOffsetAndOrder) {
  const Layout slice = Layout(Shape{4, 6}).sliced(0, 1, 2);
  const auto reshaped = slice.reshaped({3, 4});
  ASSERT_TRUE(reshaped);
  EXPECT_EQ(reshaped->offset(), 6);
  EXPECT_EQ(positions(*reshaped), positions(slice));
}

TEST(Layout, ReshapedSplitsAndMergesWhereStridesAllow) {
  const Layout transposed = Layout(Shape{6, 4}).transposed(0, 1);
  EXPECT_TRUE(transposed.reshaped({2, 2, 3, 2}));
  EXPECT_TRUE(transposed.reshaped({4, 1, 6}));
  EXPECT_FALSE(transposed.reshaped({24}));
  EXPECT_FALSE(transposed.reshaped({8, 3}));
  // Broadcast axes merge with each other, not with others.
  const Layout stretched = Layout(Shape{3}).broadcast_to({2, 4, 3});
  EXPECT_TRUE(stretched.reshaped({8, 3}));
  EXPECT_FALSE(stretched.reshaped({2, 12}));
}

TEST(Layout, ReshapedScalarsAndEmptyOnes) {
  const Layout last = Layout(Shape{5}).sliced(0, 4, 1);
  ASSERT_TRUE(last.reshaped({}));
  EXPECT_EQ(positions(*last.reshaped({})), Positions{4});
  EXPECT_EQ(positions(*last.reshaped({1, 1, 1})), Positions{4});
  EXPECT_EQ(positions(*Layout().reshaped({1})), Positions{0});
  const auto empty = Layout(Shape{2, 0, 3}).transposed(0, 2).reshaped({0, 7});
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->shape(), (Shape{0, 7}));
}

// --- Random chains of views against brute force. ---

/// Random sizes with the given product: its prime factors, dealt to 1 to 5 axes (some stay 1).
std::vector<Index> random_factors(Index product, std::mt19937& random) {
  std::vector<Index> sizes(1 + random() % 5, 1);
  for (Index factor = 2; product > 1;) {
    if (product % factor == 0) {
      sizes[random() % sizes.size()] *= factor;
      product /= factor;
    } else {
      ++factor;
    }
  }
  return sizes;
}

/// A view of a row-major layout through up to three random steps.
Layout random_view(std::mt19937& random) {
  constexpr std::array<Index, 8> products{1, 2, 6, 12, 16, 24, 36, 60};
  Layout layout(shape_of(random_factors(products[random() % products.size()], random)));
  for (unsigned steps = random() % 4; steps > 0; --steps) {
    const auto rank = static_cast<unsigned>(layout.rank());
    const int axis = static_cast<int>(random() % rank);
    switch (random() % 3) {
      case 0: layout = layout.transposed(axis, static_cast<int>(random() % rank)); break;
      case 1: {
        const Index size = layout.size(axis), step = 1 + random() % 2, start = random() % size;
        const Index most = (size - start + step - 1) / step;
        layout = layout.sliced(axis, start, most - random() % most, step);
        break;
      }
      default: {
        Shape stretched = layout.shape();
        if (stretched[axis] == 1) stretched.set(axis, 1 + random() % 4);
        layout = layout.broadcast_to(stretched);
      }
    }
  }
  return layout;
}

TEST(LayoutRandom, ReshapedAgreesWithBruteForce) {
  std::mt19937 random(1);
  int possible = 0, impossible = 0;
  for (int round = 0; round < 20000; ++round) {
    const Layout view = random_view(random);
    const Shape target = shape_of(random_factors(view.elements(), random));
    const Positions wanted = positions(view);
    const auto reshaped = view.reshaped(target);
    ASSERT_EQ(reshaped.has_value(), expressible(wanted, target))
        << to_string(view.shape()) << " to " << to_string(target);
    if (reshaped) {
      ASSERT_EQ(reshaped->shape(), target);
      ASSERT_EQ(positions(*reshaped), wanted) << to_string(view.shape()) << " to " << to_string(target);
    }
    ++(reshaped ? possible : impossible);
  }
  EXPECT_GT(possible, 2000);
  EXPECT_GT(impossible, 2000);
}

TEST(LayoutRandom, ContiguousAgreesWithBruteForce) {
  std::mt19937 random(2);
  int contiguous = 0, strided = 0;
  for (int round = 0; round < 20000; ++round) {
    const Layout view = random_view(random);
    const Positions got = positions(view);
    Positions dense(got.size());
    std::iota(dense.begin(), dense.end(), view.offset());
    ASSERT_EQ(view.contiguous(), got == dense) << to_string(view.shape());
    ++(view.contiguous() ? contiguous : strided);
  }
  EXPECT_GT(contiguous, 2000);
  EXPECT_GT(strided, 2000);
}

TEST(LayoutRandom, PermutedMovesWholeAxes) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const Layout view = random_view(random);
    std::array<int, max_rank> axes{};
    std::iota(axes.begin(), axes.begin() + view.rank(), 0);
    std::shuffle(axes.begin(), axes.begin() + view.rank(), random);
    std::array<int, max_rank> back{};
    for (int i = 0; i < view.rank(); ++i) back[static_cast<std::size_t>(axes[static_cast<std::size_t>(i)])] = i;
    const Layout permuted = view.permuted(axes.data());
    for (int i = 0; i < view.rank(); ++i) ASSERT_EQ(permuted.size(i), view.size(axes[static_cast<std::size_t>(i)]));
    ASSERT_EQ(permuted.permuted(back.data()), view);
  }
}

}  // namespace
}  // namespace capstan
