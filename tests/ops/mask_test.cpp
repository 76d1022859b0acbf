// Masks: what each kind allows, alignments, combinations, resolution against scores, errors.
#include <capstan/autograd/create.h>
#include <capstan/ops/mask.h>
#include <capstan/ops/rearrange.h>

#include <limits>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor boolean(const NestedList& list) { return tensor(list, DType::boolean); }

void expect_keeps(const Mask& mask, const Shape& scores, const Shape& shape, const std::vector<double>& elements) {
  expect_exactly(mask.keep_tensor(scores), shape, elements);
}

TEST(Mask, ByDefaultEverythingIsAllowed) {
  expect_keeps(Mask(), {2, 3, 2, 3}, {1, 1, 2, 3}, {1, 1, 1, 1, 1, 1});
  EXPECT_TRUE(Mask::all().is_all());
  EXPECT_TRUE(Mask::all().is_all({2, 3, 2, 3}));
  EXPECT_FALSE(Mask::causal().is_all());
}

TEST(Mask, CausalSeesItselfAndThePast) {
  expect_keeps(Mask::causal(), {1, 1, 3, 3}, {1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1});
  expect_keeps(Mask::causal(Align::top_left), {1, 1, 2, 4}, {1, 1, 2, 4}, {1, 0, 0, 0, 1, 1, 0, 0});
  expect_keeps(Mask::causal(Align::bottom_right), {1, 1, 2, 4}, {1, 1, 2, 4}, {1, 1, 1, 0, 1, 1, 1, 1});
  expect_keeps(Mask::causal(Align::top_left), {1, 1, 4, 2}, {1, 1, 4, 2}, {1, 0, 1, 1, 1, 1, 1, 1});
  expect_keeps(Mask::causal(Align::bottom_right), {1, 1, 4, 2}, {1, 1, 4, 2}, {0, 0, 0, 0, 1, 0, 1, 1});
}

TEST(Mask, UnequalLengthsNeedAnAlignment) {
  const std::string sentence =
      "mask: causal() and window() need Tq = Tk or an alignment; got Tq 2 and Tk 5; say Align::top_left or "
      "Align::bottom_right";
  EXPECT_EQ(error_of([] { Mask::causal().keep_tensor({1, 1, 2, 5}); }), sentence);
  EXPECT_EQ(error_of([] { Mask::window(1).is_all({1, 1, 2, 5}); }), sentence);
  EXPECT_EQ(error_of([] { (Mask::causal() & Mask::causal(Align::top_left)).band({1, 1, 2, 5}); }), sentence);
}

TEST(Mask, WindowsBoundBothSides) {
  expect_keeps(Mask::window(1), {1, 1, 3, 3}, {1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 0, 1, 1});
  expect_keeps(Mask::window(0, 1), {1, 1, 3, 3}, {1, 1, 3, 3}, {1, 1, 0, 0, 1, 1, 0, 0, 1});
  expect_keeps(Mask::window(std::nullopt, std::nullopt), {1, 1, 2, 3}, {1, 1, 2, 3}, {1, 1, 1, 1, 1, 1});
  expect_keeps(Mask::window(1, 0, Align::bottom_right), {1, 1, 2, 4}, {1, 1, 2, 4}, {0, 1, 1, 0, 0, 0, 1, 1});
  expect_keeps(Mask::window(1, std::nullopt, Align::top_left), {1, 1, 3, 3}, {1, 1, 3, 3}, {1, 1, 1, 1, 1, 1, 0, 1, 1});
  constexpr Index huge = std::numeric_limits<Index>::max();
  expect_keeps(Mask::window(huge, huge), {1, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 1, 1});
}

TEST(Mask, WindowsOfAnySizeAreTheirDefinition) {
  const auto bound = [](Index size) { return size == 7 ? std::nullopt : std::optional<Index>(size); };
  for (const Align align : {Align::top_left, Align::bottom_right})
    for (Index left = 0; left <= 7; ++left)
      for (Index right = 0; right <= 7; ++right)
        for (Index queries = 1; queries <= 4; ++queries)
          for (Index keys = 1; keys <= 5; ++keys) {
            const Tensor kept = Mask::window(bound(left), bound(right), align).keep_tensor({1, 1, queries, keys});
            for (Index i = 0; i < queries; ++i)
              for (Index j = 0; j < keys; ++j) {
                const Index place = align == Align::top_left ? i : i + keys - queries;
                const bool want = (left == 7 || j >= place - left) && (right == 7 || j <= place + right);
                ASSERT_EQ(kept.at({0, 0, i, j}) != 0, want)
                    << left << ' ' << right << ' ' << queries << 'x' << keys << ' ' << i << ' ' << j;
              }
          }
}

TEST(Mask, DiagonalsAreABandWhateverTheSizes) {
  expect_keeps(Mask::diagonals(1, 2), {1, 1, 2, 4}, {1, 1, 2, 4}, {0, 1, 1, 0, 0, 0, 1, 1});
  expect_keeps(Mask::diagonals(-1, -1), {1, 1, 3, 2}, {1, 1, 3, 2}, {0, 0, 1, 0, 0, 1});
  expect_keeps(Mask::diagonals(1, 0), {1, 1, 2, 2}, {1, 1, 2, 2}, {0, 0, 0, 0});
  const Shape scores{1, 1, 3, 7};
  const Mask::Band band = Mask::window(2, 1, Align::bottom_right).band(scores),
                   again = Mask::diagonals(band.low, band.high).band(scores);
  EXPECT_EQ(again.low, band.low);
  EXPECT_EQ(again.high, band.high);
}

TEST(Mask, PaddingHidesTheKeysBeyondEachLength) {
  const std::vector<double> kept{1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  expect_keeps(Mask::padding({2, 0, 3}), {3, 4, 2, 3}, {3, 1, 2, 3}, kept);
  expect_keeps(Mask::padding(tensor({2, 0, 3}, DType::i32)), {3, 4, 2, 3}, {3, 1, 2, 3}, kept);
}

TEST(Mask, KeepTensorsBroadcast) {
  expect_keeps(Mask::keep(boolean({{1, 0}, {0, 1}})), {3, 2, 2, 2}, {1, 1, 2, 2}, {1, 0, 0, 1});
  expect_keeps(Mask::keep(boolean({{{{1, 0}}}, {{{0, 1}}}})), {2, 3, 2, 2}, {2, 1, 2, 2}, {1, 0, 1, 0, 0, 1, 0, 1});
  expect_keeps(Mask::keep(boolean({{{1}}, {{0}}})), {2, 2, 1, 2}, {1, 2, 1, 2}, {1, 1, 0, 0});
  expect_keeps(Mask::keep(transpose(boolean({{1, 0}, {1, 1}}))), {1, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 0, 1});
}

TEST(Mask, KeepTensorsMayBePartsOfLargerOnes) {
  const Tensor whole = boolean({{0, 0, 0}, {1, 1, 0}, {1, 0, 1}});
  expect_keeps(Mask::keep(slice(slice(whole, 0, 1, 3), 1, 1, 3)), {1, 1, 2, 2}, {1, 1, 2, 2}, {1, 0, 0, 1});
}

TEST(Mask, CombinationsAllowWhatAllAllow) {
  const Mask mask = Mask::causal() & Mask::padding({3, 2}) & Mask::keep(boolean({{1, 1, 1}, {0, 1, 1}, {1, 1, 1}}));
  expect_keeps(mask, {2, 1, 3, 3}, {2, 1, 3, 3}, {1, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0});
  expect_keeps(Mask::padding({3, 2}) & Mask::padding({1, 3}), {2, 1, 1, 3}, {2, 1, 1, 3}, {1, 0, 0, 1, 1, 0});
  expect_keeps(Mask::window(2) & Mask::window(1, 1), {1, 1, 3, 3}, {1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 0, 1, 1});
  expect_keeps(Mask::keep(boolean({{1, 0}})) & Mask::keep(boolean({{1}, {0}})), {1, 1, 2, 2}, {1, 1, 2, 2},
               {1, 0, 0, 0});
  expect_keeps(Mask::causal(Align::top_left) & Mask::window(0, std::nullopt, Align::bottom_right), {1, 1, 2, 3},
               {1, 1, 2, 3}, {0, 0, 0, 0, 0, 0});
}

TEST(Mask, KnowsWhenItForbidsNothing) {
  EXPECT_TRUE(Mask::causal(Align::bottom_right).is_all({1, 1, 1, 5}));
  EXPECT_FALSE(Mask::causal(Align::bottom_right).is_all({1, 1, 2, 5}));
  EXPECT_TRUE(Mask::causal().is_all({1, 1, 1, 1}));
  EXPECT_TRUE(Mask::window(4).is_all({1, 1, 1, 1}));
  EXPECT_FALSE(Mask::padding({5}).is_all({1, 1, 1, 5}));
}

TEST(Mask, TheBandSaysTheSameAsTheTensor) {
  const Shape scores{1, 1, 3, 7};
  const Mask mask = Mask::window(2, 1, Align::bottom_right) & Mask::causal(Align::bottom_right);
  const Mask::Band band = mask.band(scores);
  const Tensor keep = mask.keep_tensor(scores);
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 7; ++j) EXPECT_EQ(keep.at({0, 0, i, j}) != 0, band.low <= j - i && j - i <= band.high);
}

TEST(Mask, ResolvesToSeeingQueriesAndSeenKeys) {
  const ResolvedMask nothing = resolve(Mask::all(), {2, 2, 3, 3}, 2);
  EXPECT_FALSE(nothing.keep.defined() || nothing.queries.defined() || nothing.keys.defined());
  const ResolvedMask causal = resolve(Mask::causal(), {2, 2, 3, 3}, 2);
  EXPECT_TRUE(causal.keep.defined());
  EXPECT_FALSE(causal.queries.defined() || causal.keys.defined());

  const ResolvedMask cut = resolve(Mask::keep(boolean({{1, 0, 0}, {0, 0, 0}, {1, 1, 0}})), {2, 2, 3, 3}, 2);
  expect_exactly(cut.queries, {1, 1, 3, 1}, {1, 0, 1});
  expect_exactly(cut.keys, {1, 1, 3, 1}, {1, 1, 0});

  // Four heads in two groups; what one head of a group sees, the group sees.
  const Tensor heads = boolean({{{1, 0}}, {{0, 0}}, {{0, 1}}, {{0, 1}}});
  const ResolvedMask grouped = resolve(Mask::keep(heads), {1, 4, 1, 2}, 2);
  expect_exactly(grouped.queries, {1, 4, 1, 1}, {1, 0, 1, 1});
  expect_exactly(grouped.keys, {1, 2, 2, 1}, {1, 0, 0, 1});

  const ResolvedMask full = resolve(Mask::padding({3, 3}), {2, 1, 2, 3}, 1);
  EXPECT_FALSE(full.keep.defined());
}

TEST(Mask, EmptySizesAreLegal) {
  expect_keeps(Mask::padding(std::vector<Index>{}), {0, 2, 3, 3}, {0, 1, 3, 3}, {});
  expect_keeps(Mask::causal(Align::bottom_right), {1, 1, 3, 0}, {1, 1, 3, 0}, {});
  expect_exactly(resolve(Mask::padding({0}), {1, 1, 2, 0}, 1).queries, {1, 1, 2, 1}, {0, 0});
}

TEST(Mask, NamesWhatDoesNotFit) {
  EXPECT_EQ(
      error_of([] {
        Mask::keep(ones({2, 2}));
      }),
      "mask: keep must be bool, true where a query may attend; got f32; pass numbers to be added to the scores as a "
      "Bias");
  EXPECT_EQ(error_of([] {
              Mask::keep(full({1, 1, 1, 1, 1}, 1, DType::boolean));
            }),
            "mask: keep must broadcast to [B, H, Tq, Tk]; got [1, 1, 1, 1, 1]");
  EXPECT_EQ(error_of([] {
              Mask::keep(full({3, 2}, 1, DType::boolean)).keep_tensor({1, 1, 2, 2});
            }),
            "mask: keep must broadcast to the scores [1, 1, 2, 2]; got [3, 2]");
  EXPECT_EQ(error_of([] { Mask::padding(ones({2})); }), "mask: lengths must be i32 [B]; got f32 [2]");
  EXPECT_EQ(error_of([] { Mask::padding({2, -1}); }), "mask: lengths must be in [0, 2^31); got -1 at [1]");
  EXPECT_EQ(error_of([] {
              Mask::padding({2, 4}).keep_tensor({2, 1, 3, 3});
            }),
            "mask: lengths must be in [0, 4); got 4 at [1]");
  EXPECT_EQ(error_of([] {
              Mask::padding({2, 3}).keep_tensor({3, 1, 3, 3});
            }),
            "mask: lengths must be [B] = [3]; got [2]");
  EXPECT_EQ(error_of([] {
              Mask::padding({2}) & Mask::padding({2, 3});
            }),
            "mask: masks of one batch are combined; got lengths of [1] and [2]");
  EXPECT_EQ(error_of([] { Mask::window(-1); }), "mask: window bounds must not be negative; got left -1 and right 0");
  EXPECT_EQ(error_of([] { Mask::all().keep_tensor({2, 2}); }), "mask: scores must be [B, H, Tq, Tk]; got [2, 2]");
}

}  // namespace
}  // namespace capstan::test
