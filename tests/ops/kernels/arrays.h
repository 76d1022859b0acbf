// Owned strided arrays for kernel tests: random layouts, logical access, thread and target loops.
// Not for: tests of ops (they have tensors).
#pragma once

#include <capstan/autograd/view.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/simd_targets.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace capstan::kernels::test {

using Random = std::mt19937_64;

inline Index pick(Random& random, Index low, Index high) {
  return std::uniform_int_distribution<Index>(low, high)(random);
}
inline double normal(Random& random) { return std::normal_distribution<double>()(random); }

/// A tensor's worth of T: owns its elements, hands out views.
template <class T>
class Array {
 public:
  explicit Array(const Shape& shape) : Array(Layout(shape), shape.elements()) {}
  Array(const Layout& layout, Index capacity)
      : layout_(std::make_unique<Layout>(layout)),
        capacity_(capacity),
        data_(std::make_unique<T[]>(static_cast<std::size_t>(capacity))) {}
  Array(const Shape& shape, const std::vector<double>& values) : Array(shape) {
    for (Index i = 0; i < shape.elements(); ++i) (*this)[i] = static_cast<T>(values[static_cast<std::size_t>(i)]);
  }

  /// The same elements in row-major order.
  Array dense() const {
    Array copy(shape());
    for (Index i = 0; i < elements(); ++i) copy[i] = (*this)[i];
    return copy;
  }

  const Layout& layout() const { return *layout_; }
  const Shape& shape() const { return layout_->shape(); }
  Index elements() const { return layout_->elements(); }
  ConstView in() const { return {data_.get(), layout_.get(), dtype_of<T>}; }
  View out() { return {data_.get(), layout_.get(), dtype_of<T>}; }
  T* data() { return data_.get(); }

  /// Logical element i, row-major.
  T& operator[](Index i) { return data_[static_cast<std::size_t>(place(i))]; }
  const T& operator[](Index i) const { return data_[static_cast<std::size_t>(place(i))]; }
  /// Every element of the memory, also those between the logical ones.
  void fill_all(T value) { std::fill_n(data_.get(), capacity_, value); }
  std::string bytes() const {
    std::string all;
    for (Index i = 0; i < elements(); ++i) {
      char one[sizeof(T)];
      std::memcpy(one, &(*this)[i], sizeof(T));
      all.append(one, sizeof(T));
    }
    return all;
  }

 private:
  Index place(Index i) const {
    Index at = layout_->offset();
    for (int axis = layout_->rank(); axis-- > 0;) {
      at += i % layout_->size(axis) * layout_->stride(axis);
      i /= layout_->size(axis);
    }
    return at;
  }
  std::unique_ptr<Layout> layout_;
  Index capacity_;
  std::unique_ptr<T[]> data_;
};

/// A random layout of `shape` without overlap: axes permuted, gaps between elements, an offset.
template <class T>
Array<T> strided(const Shape& shape, Random& random) {
  std::vector<int> order(static_cast<std::size_t>(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i) order[static_cast<std::size_t>(i)] = i;
  if (pick(random, 0, 1)) std::shuffle(order.begin(), order.end(), random);
  Index strides[max_rank] = {}, next = pick(random, 0, 2) == 0 ? 2 : 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next *= std::max(Index{1}, shape[order[i]]) + (pick(random, 0, 3) == 0 ? 1 : 0);
  }
  const Index offset = pick(random, 0, 3);
  return Array<T>(Layout(shape, strides, offset), next + offset + 1);
}

/// The same, of a shape that broadcasts to `shape`: leading axes missing, others of size 1.
inline Shape broadcastable(const Shape& shape, Random& random) {
  Shape smaller;
  for (int axis = static_cast<int>(pick(random, 0, shape.rank())) / 2; axis < shape.rank(); ++axis)
    smaller.push_back(pick(random, 0, 3) == 0 ? 1 : shape[axis]);
  return smaller;
}

inline Shape random_shape(Random& random, int most_rank, Index most_size) {
  Shape shape;
  const Index rank = pick(random, 0, most_rank);
  for (Index i = 0; i < rank; ++i) shape.push_back(pick(random, pick(random, 0, 20) == 0 ? 0 : 1, most_size));
  return shape;
}

/// Index into an array of shape `from` of logical element i of `to`, to which it broadcasts.
inline Index broadcast_place(const Shape& from, const Shape& to, Index i) {
  Index place = 0, scale = 1;
  const int missing = to.rank() - from.rank();
  for (int axis = to.rank(); axis-- > missing;) {
    const Index size = from[axis - missing];
    place += (size == 1 ? 0 : i % to[axis]) * scale;
    scale *= size;
    i /= to[axis];
  }
  return place;
}

template <class T>
void randomize(Array<T>& array, Random& random, double scale = 1, double shift = 0) {
  for (Index i = 0; i < array.elements(); ++i) {
    if constexpr (std::is_same_v<T, bool>) array[i] = pick(random, 0, 1) == 1;
    if constexpr (std::is_same_v<T, std::int32_t>) array[i] = static_cast<std::int32_t>(pick(random, -9, 9));
    if constexpr (std::is_floating_point_v<T>) array[i] = static_cast<T>(scale * normal(random) + shift);
  }
}

/// Runs f with each instruction set that this machine has, then goes back to the one before.
inline void for_each_target(const std::function<void()>& f) {
  const std::string before = simd_target();
  for (const std::string& name : simd_targets()) {
    SCOPED_TRACE(name);
    use_simd_target(name);
    f();
  }
  use_simd_target(before);
}

/// f() with 1, 2 and 4 threads must return the same bytes, and with 2 run in parallel at least once.
inline void expect_same_bytes(Region region, const std::function<std::string()>& f) {
  const int before = thread_count();
  set_thread_count(1);
  const std::uint64_t serial = parallel_regions(region);
  const std::string one = f();
  EXPECT_EQ(parallel_regions(region), serial) << "ran in parallel with one thread";
  for (const int threads : {2, 4}) {
    set_thread_count(threads);
    const std::uint64_t count = parallel_regions(region);
    EXPECT_TRUE(f() == one) << "other bytes with " << threads << " threads";
    EXPECT_GT(parallel_regions(region), count) << "not parallel with " << threads << " threads: " << name_of(region);
  }
  set_thread_count(before);
}

/// |got − want| ≤ relative · |want| + absolute, NaN equal to NaN, infinities equal.
inline void expect_near(double got, double want, double relative, double absolute, const std::string& where = {}) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << where << " got " << got << " want NaN";
  } else if (std::isinf(want)) {
    EXPECT_EQ(got, want) << where;
  } else {
    EXPECT_LE(std::abs(got - want), relative * std::abs(want) + absolute)
        << where << " got " << got << " want " << want;
  }
}

template <class T>
constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());

}  // namespace capstan::kernels::test
