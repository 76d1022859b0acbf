// Pairwise joins of partial results, whose number need not be known: like a binary counter, level i holds the join of
// 2^i of them. Not for: the innermost loops (reduce_simd.h).
#pragma once

#include <capstan/autograd/shape.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace capstan::kernels {

/// Joins a stream of values pairwise, so that rounding errors grow with the logarithm of their number.
template <class L>
class Cascade {
 public:
  using Sum = typename L::Sum;
  explicit Cascade(const L& loops) : loops_(loops) {}
  void add(Sum value) {
    int level = 0;
    for (std::uint64_t bits = count_++; bits & 1; bits >>= 1) value = loops_.join(levels_[level++], value);
    levels_[level] = value;
  }
  Sum total() const {
    Sum sum = loops_.identity();
    for (int level = 0; level < 64 && count_ >> level != 0; ++level)
      if (count_ >> level & 1) sum = loops_.join(levels_[level], sum);
    return sum;
  }

 private:
  const L& loops_;
  std::uint64_t count_ = 0;
  Sum levels_[64];
};

/// The same for rows of values, column by column. `memory` holds `levels(rows)` rows.
template <class L>
class RowCascade {
 public:
  using Sum = typename L::Sum;
  static Index levels(Index rows) { return std::bit_width(static_cast<std::uint64_t>(rows)); }
  RowCascade(const L& loops, Index width, Sum* memory) : loops_(loops), width_(width), memory_(memory) {}
  /// Destroys `row`.
  void add(Sum* row) {
    int level = 0;
    for (std::uint64_t bits = count_++; bits & 1; bits >>= 1) join(this->level(level++), row);
    std::copy_n(row, width_, this->level(level));
  }
  /// Where the total stands: in `result` or in the cascade's memory.
  const Sum* total(Sum* result) const {
    if (count_ == 1) return level(0);
    std::fill_n(result, width_, loops_.identity());
    for (int level = 0; level < 64 && count_ >> level != 0; ++level)
      if (count_ >> level & 1) join(this->level(level), result);
    return result;
  }

 private:
  Sum* level(Index i) const { return memory_ + i * width_; }
  void join(const Sum* earlier, Sum* later) const {
    for (Index j = 0; j < width_; ++j) later[j] = loops_.join(earlier[j], later[j]);
  }
  const L& loops_;
  Index width_;
  Sum* memory_;
  std::uint64_t count_ = 0;
};

}  // namespace capstan::kernels
