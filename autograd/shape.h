// Sizes of a tensor, outermost axis first. A small value: inline up to 8 axes, no heap.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>

namespace capstan {

/// Sizes, strides, offsets and element counts: 64 bits everywhere.
using Index = std::int64_t;

inline constexpr int max_rank = 8;

namespace detail {
/// Up to 8 axes copied as two fixed halves: a loop over the rank costs more than the copy. The upper half is not
/// initialised before an axis of it is set.
struct Axes {
  std::array<Index, 4> low;
  std::array<Index, 4> high;
  Axes() : low{} {}
  Index* data() { return low.data(); }
  const Index* data() const { return low.data(); }
};
static_assert(sizeof(Axes) == max_rank * sizeof(Index));

/// `rank` of them, in pairs up to four: compilers make a call of memcpy of a loop.
inline void copy_axes(const Index* from, int rank, Index* to) {
  constexpr std::size_t pair = 2 * sizeof(Index);
  if (rank < 2) {
    if (rank == 1) *to = *from;
    return;
  }
  std::memcpy(to, from, pair);
  if (rank == 3) to[2] = from[2];
  if (rank < 4) return;
  std::memcpy(to + 2, from + 2, pair);
  for (int i = 4; i < rank; ++i) to[i] = from[i];
}
}  // namespace detail

/// The sizes of a tensor. `Shape{}` is a scalar's; a size of 0 is legal; a negative one, a ninth axis, or an element
/// count beyond 2^62 is an Error.
class Shape {
 public:
  // Not `= default`, here, in Layout, Tensor and Small: `{}` would fill the whole object with zeros first.
  Shape() noexcept {}
  Shape(std::initializer_list<Index> sizes) : Shape(std::span<const Index>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const Index> sizes);

  Shape(const Shape& other) { copy(other); }
  Shape& operator=(const Shape& other) {
    copy(other);
    return *this;
  }

  int rank() const { return rank_; }
  /// Size of an axis in [0, rank).
  Index operator[](int axis) const { return sizes_.data()[axis]; }
  /// Size of an axis counted from the end: back(0) is the last one.
  Index back(int from_end = 0) const { return sizes_.data()[rank_ - 1 - from_end]; }
  /// A shape from sizes that were checked before.
  static Shape trusted(const Index* sizes, int rank) {
    Shape shape;
    shape.rank_ = rank;
    detail::copy_axes(sizes, rank, shape.sizes_.data());
    return shape;
  }
  /// Product of the sizes; 1 for a scalar.
  Index elements() const {
    Index count = 1;
    for (const Index size : *this) count *= size;
    return count;
  }
  /// Turns an axis in [-rank, rank) into one in [0, rank); outside is an Error that begins with `op`.
  int axis(const char* op, int axis) const {
    if (axis < -rank_ || axis >= rank_) fail_axis(op, axis);
    return axis < 0 ? axis + rank_ : axis;
  }
  void push_back(Index size);
  /// Replaces one size; checked like the constructors.
  void set(int axis, Index size) {
    const bool grows = size < 0 || size > sizes_.data()[axis];
    sizes_.data()[axis] = size;
    if (grows) check();
  }
  /// Replaces one size where the whole is known to be legal: a view of a checked tensor.
  void set_trusted(int axis, Index size) { sizes_.data()[axis] = size; }
  /// This shape with its last `count` axes removed.
  Shape drop_back(int count = 1) const {
    return Shape(std::span<const Index>(begin(), static_cast<std::size_t>(rank_ - count)));
  }

  const Index* begin() const { return sizes_.data(); }
  const Index* end() const { return sizes_.data() + rank_; }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  void check() const {
    Index all = 0;
    for (int i = 0; i < rank_; ++i) all |= sizes_.data()[i];
    if (rank_ > 4 || all >> 15 != 0) check_large();
  }
  void check_large() const;
  [[noreturn]] void fail_axis(const char* op, int axis) const;
  void copy(const Shape& other) {
    rank_ = other.rank_;
    sizes_.low = other.sizes_.low;
    if (rank_ > 4) sizes_.high = other.sizes_.high;
  }
  detail::Axes sizes_;
  int rank_ = 0;
};

/// The NumPy broadcast of two shapes: aligned at the last axis, 1 stretches. An Error that begins with `op` where they
/// do not fit.
Shape broadcast(const char* op, const Shape& a, const Shape& b);

/// "[2, 3]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

}  // namespace capstan
