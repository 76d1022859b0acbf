// Where the elements of a tensor lie in its storage: shape, strides and offset, all in elements.
#pragma once

#include <capstan/autograd/shape.h>

#include <optional>

namespace capstan {

/// Element (i0, i1, …) lies at offset + Σ i_a · stride(a). Row-major layouts are made by the constructor; views
/// (transpose, slice, broadcast: stride 0) come from the functions below, which never touch data.
class Layout {
 public:
  Layout() noexcept {}
  /// Row-major (last axis fastest), offset 0.
  explicit Layout(const Shape& shape) : shape_(shape) { make_dense(shape.begin()); }
  Layout(const Shape& shape, const Index* strides, Index offset) : shape_(shape), offset_(offset) {
    for (int i = 0; i < rank(); ++i) strides_.data()[i] = strides[i];
  }
  /// Both from sizes that were checked before. Built in place: to copy a layout that has just been written costs more than
  /// to write it.
  Layout(const Index* sizes, const Index* strides, int rank, Index offset)
      : shape_(Shape::trusted(sizes, rank)), offset_(offset) {
    detail::copy_axes(strides, rank, strides_.data());
  }
  Layout(const Index* sizes, int rank) : shape_(Shape::trusted(sizes, rank)) { make_dense(sizes); }

  Layout(const Layout& other) : shape_(other.shape_), offset_(other.offset_) { copy_strides(other); }
  Layout& operator=(const Layout& other) {
    shape_ = other.shape_;
    offset_ = other.offset_;
    copy_strides(other);
    return *this;
  }

  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  Index size(int axis) const { return shape_[axis]; }
  Index stride(int axis) const { return strides_.data()[axis]; }
  const Index* strides() const { return strides_.data(); }
  Index offset() const { return offset_; }
  Index elements() const { return shape_.elements(); }

  /// True if the elements lie densely in row-major order (axes of size 1 and empty tensors do not matter).
  bool contiguous() const {
    Index expected = 1;
    int axis = rank() - 1;
    for (; axis >= 0 && stride(axis) == expected; --axis) expected *= size(axis);
    return axis < 0 || contiguous_but_for_small();
  }

  /// Output axis i is input axis axes[i]; `axes` is a permutation of [0, rank) (checked by the caller).
  Layout permuted(const int* axes) const;
  /// The last two axes, or any two, swapped.
  Layout transposed(int a, int b) const;
  /// `count` elements of an axis, from `start`, every `step`-th (step > 0; checked by the caller).
  Layout sliced(int axis, Index start, Index count, Index step = 1) const;
  /// Stretched to `shape` with strides of 0; shape() must broadcast to it (checked by the caller).
  Layout broadcast_to(const Shape& shape) const;
  /// The same elements in the same order under another shape, if some strides express it.
  std::optional<Layout> reshaped(const Shape& shape) const;

  friend bool operator==(const Layout& a, const Layout& b);

 private:
  bool contiguous_but_for_small() const;  // axes of size 1 or 0
  void make_dense(const Index* sizes) {
    Index stride = 1;
    Index* end = strides_.data() + rank();
    for (const Index* size = sizes + rank(); size != sizes; stride *= *size) {
      *--end = stride;
      --size;
    }
  }
  void copy_strides(const Layout& other) {
    strides_.low = other.strides_.low;
    if (rank() > 4) strides_.high = other.strides_.high;
  }
  Shape shape_;
  detail::Axes strides_;
  Index offset_ = 0;
};

}  // namespace capstan
