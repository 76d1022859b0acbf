// The fused attention against the reference: values, gradients, promises of zero, higher orders, on every kind of mask.
// The kernels themselves are tested in kernels/attention_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/pool.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory_resource>

#include "support/attention_masks.h"
#include "support/expect.h"
#include "support/states.h"

namespace capstan::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr Dropout drop{.p = 0.4, .key = {.seed = 6, .stream = 1}};

Tensor draw(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(Key{.seed = seed}, shape, 0, 1, dtype);
}

/// Output, and the gradients by q, k, v and, if there is one, by the bias.
std::vector<Tensor> run(bool fused, const std::vector<Tensor>& in, AttentionOptions options, const Tensor& up,
                        bool create_graph = false) {
  Tape tape;
  std::vector<Tensor> x;
  for (const Tensor& input : in) x.push_back(tape.watch(input));
  if (x.size() > 3) options.bias = {x[3]};
  const Tensor output =
      fused ? attention(x[0], x[1], x[2], options).output : attention_reference(x[0], x[1], x[2], options).output;
  const Gradients g = tape.backward(output, up, {.create_graph = create_graph});
  std::vector<Tensor> results = {output.detach()};
  for (const Tensor& input : x) results.push_back(g.of(input).detach());
  return results;
}

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(i);
    double largest = 1;
    for (const double value : want[i].to_doubles()) largest = std::max(largest, std::abs(value));
    expect_near(got[i], want[i].shape(), want[i].to_doubles(), tolerance * largest);
  }
}

std::vector<Tensor> operands(Index queries, Index keys) {
  return {draw(1, {2, 4, queries, 3}), draw(2, {2, 2, keys, 3}), draw(3, {2, 2, keys, 5}), draw(4, {4, queries, keys})};
}

TEST(FusedAttention, EveryMaskIsTheReference) {
  for (const auto& [queries, keys] : sizes) {
    const std::vector<Tensor> all = operands(queries, keys), bare(all.begin(), all.begin() + 3);
    const Tensor up = draw(5, {2, 4, queries, 5});
    for (const auto& [name, mask] : masks(queries, keys)) {
      SCOPED_TRACE(name + " " + to_string(Shape{queries, keys}));
      expect_same(run(true, bare, {.mask = mask}, up), run(false, bare, {.mask = mask}, up), 1e-12);
      const AttentionOptions options{.mask = mask, .scale = 0.7, .dropout = drop};
      expect_same(run(true, all, options, up), run(false, all, options, up), 1e-12);
      expect_same(run(true, all, options, up, true), run(false, all, options, up), 1e-12);
    }
  }
}

// f32 against the reference in f64 on the same numbers: 64 units in the last place of the largest element.
TEST(FusedAttention, EveryMaskInF32IsCloseToF64) {
  for (const auto& [queries, keys] : sizes) {
    std::vector<Tensor> narrow, wide;
    for (const Tensor& x : operands(queries, keys)) {
      narrow.push_back(cast(x, DType::f32));
      wide.push_back(cast(narrow.back(), DType::f64));
    }
    const Tensor up = cast(draw(5, {2, 4, queries, 5}), DType::f32);
    for (const auto& [name, mask] : masks(queries, keys)) {
      SCOPED_TRACE(name + " " + to_string(Shape{queries, keys}));
      const AttentionOptions options{.mask = mask, .dropout = drop};
      expect_same(run(true, narrow, options, up), run(false, wide, options, cast(up, DType::f64)),
                  64 * std::numeric_limits<float>::epsilon());
    }
  }
}

TEST(FusedAttention, LargerThanATileIsTheReference) {
  for (const auto& [queries, keys] : {std::pair<Index, Index>{130, 130}, {70, 210}, {210, 70}}) {
    const std::vector<Tensor> all = operands(queries, keys);
    const Tensor up = draw(5, {2, 4, queries, 5});
    for (const auto& [name, mask] : masks(queries, keys)) {
      SCOPED_TRACE(name + " " + to_string(Shape{queries, keys}));
      expect_same(run(true, all, {.mask = mask}, up), run(false, all, {.mask = mask}, up), 1e-12);
    }
  }
}

TEST(FusedAttention, EveryMaskKeepsItsPromisesOfZero) {
  for (const auto& [queries, keys] : sizes) {
    const std::vector<Tensor> in = operands(queries, keys);
    const Tensor up = draw(5, {2, 4, queries, 5});
    const Shape scores{2, 4, queries, keys};
    for (const auto& [name, mask] : masks(queries, keys)) {
      SCOPED_TRACE(name + " " + to_string(scores));
      const Tensor may = cast(broadcast_to(mask.keep_tensor(scores), scores), DType::f64);
      const Tensor dead = sum(may, -1, keep_axes), seen = sum(reshape(may, Shape{2, 2, 2 * queries, keys}), 2);
      const Tensor logsumexp = attention(in[0], in[1], in[2], {.mask = mask}).logsumexp;
      const std::vector<double> counts = dead.to_doubles(), sums = logsumexp.to_doubles();
      for (std::size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(counts[i] == 0, sums[i] == -infinity) << i;
      for (const bool create_graph : {false, true}) {
        const std::vector<Tensor> r = run(true, in, {.mask = mask, .dropout = drop}, up, create_graph);
        const auto expect_zero = [](const Tensor& x, const Tensor& reached) {
          for (const double value : where(greater(reached, 0.0), 0.0, x).to_doubles()) EXPECT_EQ(value, 0);
        };
        expect_zero(r[0], dead);
        expect_zero(r[1], dead);
        expect_zero(r[2], reshape(seen, Shape{2, 2, keys, 1}));
        expect_zero(r[3], reshape(seen, Shape{2, 2, keys, 1}));
        expect_zero(r[4], sum(may, 0));
      }
    }
  }
}

TEST(FusedAttention, WhatNobodySeesReachesNothing) {  // CASES 36
  for (const auto& [queries, keys] : sizes) {
    const std::vector<Tensor> in = operands(queries, keys);
    const Tensor up = draw(5, {2, 4, queries, 5});
    const Shape scores{2, 4, queries, keys};
    for (const auto& [name, of_name] : masks(queries, keys)) {
      const Mask& mask = of_name;  // a lambda may not take a binding
      SCOPED_TRACE(name + " " + to_string(scores));
      const Tensor may = broadcast_to(mask.keep_tensor(scores), scores);
      const Tensor counted = cast(may, DType::f64);
      const Tensor unseen =
          equal(reshape(sum(reshape(counted, Shape{2, 2, 2 * queries, keys}), 2), Shape{2, 2, keys, 1}), 0.0);
      const Tensor dead = equal(sum(counted, -1, keep_axes), 0.0);
      const Tensor no_bias = equal(sum(counted, 0), 0.0);
      const auto planted = [&](double value, bool create_graph) {
        return run(true,
                   {where(dead, value, in[0]), where(unseen, value, in[1]), where(unseen, value, in[2]),
                    where(no_bias, value, in[3])},
                   {.mask = mask, .dropout = drop}, up, create_graph);
      };
      for (const bool create_graph : {false, true}) {
        const std::vector<Tensor> want = planted(0, create_graph);
        for (const double value : {nan, infinity, -infinity}) {
          const std::vector<Tensor> got = planted(value, create_graph);
          for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i << " " << value;
        }
      }
    }
  }
}

// A row without keys is 0, whatever stands in keys that other rows see.
TEST(FusedAttention, ARowWithoutKeysIsZeroBesideKeysThatAreNotFinite) {
  for (const auto& [queries, keys] : {std::pair<Index, Index>{5, 2}, {16, 16}, {40, 30}, {120, 100}}) {
    const Tensor q = draw(1, {1, 2, queries, 4}), up = draw(2, {1, 2, queries, 4});
    std::vector<NamedMask> some = masks(queries, keys);
    some.push_back({"an empty band", Mask::diagonals(1, 0)});
    some.push_back({"disjoint bands", Mask::diagonals(1, 5) & Mask::causal(Align::top_left)});
    for (const auto& [name, mask] : some) {
      if (name.find("padding") != std::string::npos || name.find("per batch") != std::string::npos ||
          name.find("per head") != std::string::npos || name.find("per key") != std::string::npos ||
          name == "all kinds")
        continue;  // these are for two sequences and four heads
      SCOPED_TRACE(fmt::format("{} {}x{}", name, queries, keys));
      const std::vector<double> may =
          cast(broadcast_to(mask.keep_tensor({1, 2, queries, keys}), {1, 2, queries, keys}), DType::f64).to_doubles();
      for (const double value : {nan, infinity}) {
        const Tensor bad = full({1, 2, keys, 4}, value, DType::f64);
        const std::vector<Tensor> got = run(true, {q, bad, bad}, {.mask = mask}, up);
        const std::vector<double> output = got[0].to_doubles(), dq = got[1].to_doubles();
        for (std::size_t row = 0; row < static_cast<std::size_t>(2 * queries); ++row) {
          const auto seen = may.begin() + static_cast<std::ptrdiff_t>(row) * keys;
          if (std::count(seen, seen + keys, 0.0) != keys) continue;
          for (std::size_t i = 4 * row; i < 4 * row + 4; ++i) {
            ASSERT_EQ(output[i], 0) << row;
            ASSERT_EQ(dq[i], 0) << row;
          }
        }
        const std::vector<double> dk = got[2].to_doubles();
        if (std::count(may.begin(), may.end(), 0.0) == static_cast<std::ptrdiff_t>(may.size())) {
          EXPECT_EQ(std::count(dk.begin(), dk.end(), 0.0), static_cast<std::ptrdiff_t>(dk.size()));
        }
      }
    }
  }
}

TEST(FusedAttention, ABiasOfMinusInfinityEverywhereIsARowWithoutKeys) {
  for (const Index length : {2, 20}) {
    const Tensor x = draw(1, {1, 1, length, 2}), up = draw(2, {1, 1, length, 2});
    const Tensor bias = where(equal(arange(0, static_cast<double>(length), 1, DType::f64), 0.0), -infinity,
                              zeros({length}, DType::f64));
    const std::vector<Tensor> in = {x, x, x, reshape(bias, Shape{length, 1})};
    const std::vector<Tensor> r = run(true, in, {}, up);
    for (const Tensor& y : r)
      for (const double value : y.to_doubles()) EXPECT_TRUE(std::isfinite(value));
    EXPECT_EQ(r[0].at({0, 0, 0, 0}), 0);
    EXPECT_EQ(r[1].at({0, 0, 0, 0}), 0);
    expect_same(run(true, in, {}, up, true), r, 1e-13);  // by the reference
  }
}

TEST(FusedAttention, TheCotangentOfARowWithoutKeysReachesNothing) {
  const Tensor x = draw(1, {1, 1, 3, 2}), up = draw(2, {1, 1, 3, 2});
  const Tensor first = reshape(equal(arange(0, 3, 1, DType::f64), 0.0), Shape{3, 1});
  const AttentionOptions options{.mask = Mask::keep(broadcast_to(logical_not(first), Shape{3, 3}))};
  const std::vector<Tensor> want = run(true, {x, x, x}, options, up);
  for (const bool fused : {true, false})
    for (const bool create_graph : {false, true})
      expect_same(run(fused, {x, x, x}, options, where(first, nan, up), create_graph), want, 1e-13);
}

/// Forwards, and counts what is asked for.
class Counting : public std::pmr::memory_resource {
 public:
  explicit Counting(std::pmr::memory_resource* next) : next_(next) {}
  std::atomic<std::size_t> bytes = 0;

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    bytes += size;
    return next_->allocate(size, alignment);
  }
  void do_deallocate(void* block, std::size_t size, std::size_t alignment) override {
    next_->deallocate(block, size, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  std::pmr::memory_resource* next_;
};

TEST(FusedAttention, MemoryGrowsWithTheSequenceNotItsSquare) {
  // The weights alone would be 2000² · 4 bytes = 16 MB. Blocks of this size live on: the resource must as well.
  const Shape shape{1, 1, 2000, 8};
  const std::vector<Tensor> in = {draw(1, shape, DType::f32), draw(2, shape, DType::f32), draw(3, shape, DType::f32)};
  const Tensor up = draw(4, shape, DType::f32);
  static Counting counting(std::pmr::new_delete_resource());
  pool_trim();
  std::pmr::memory_resource* before = set_pool_upstream(&counting);
  run(true, in, {.mask = Mask::causal()}, up);
  set_pool_upstream(before);
  EXPECT_LT(counting.bytes, std::size_t{4} << 20);
}

TEST(FusedAttention, NamesWhatDoesNotFit) {
  const auto error = [](const Shape& q, const Shape& k, const AttentionOptions& options = {}) {
    return error_of([&] { attention(zeros(q), zeros(k), zeros(k), options); });
  };
  EXPECT_EQ(error({2, 3}, {1, 1, 2, 3}),
            "attention: q, k, v must be [B, H, T, D]; got q [2, 3], k [1, 1, 2, 3] and v [1, 1, 2, 3]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 3}, {.bias = {zeros({3, 2})}}),
            "attention: bias must broadcast to the scores [1, 1, 2, 2]; got [3, 2]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 5, 3}, {.mask = Mask::causal()}),
            "mask: causal() and window() need Tq = Tk or an alignment; got Tq 2 and Tk 5; say Align::top_left or "
            "Align::bottom_right");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 3}, {.mask = Mask::padding({3})}),
            "mask: lengths must be in [0, 3); got 3 at [0]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 3}, {.mask = Mask::keep(full({3, 1}, 1, DType::boolean))}),
            "mask: keep must broadcast to the scores [1, 1, 2, 2]; got [3, 1]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 3}, {.dropout = Dropout{.p = 1, .key = drop.key}}),
            "dropout: p must be in [0, 1); got 1");
}

}  // namespace
}  // namespace capstan::test
