#include <capstan/autograd/layout.h>

namespace capstan {

bool Layout::contiguous_but_for_small() const {
  Index expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    const Index size = shape_[i];
    if (size == 0) return true;
    if (size == 1) continue;
    if (stride(i) != expected) return elements() == 0;
    expected *= size;
  }
  return true;
}

Layout Layout::permuted(const int* axes) const {
  Layout result = *this;
  for (int i = 0; i < rank(); ++i) {
    result.shape_.set_trusted(i, shape_[axes[i]]);
    result.strides_.data()[i] = stride(axes[i]);
  }
  return result;
}

Layout Layout::transposed(int a, int b) const {
  int axes[max_rank];
  for (int i = 0; i < rank(); ++i) axes[i] = i;
  axes[a] = b;
  axes[b] = a;
  return permuted(axes);
}

Layout Layout::sliced(int axis, Index start, Index count, Index step) const {
  Layout result = *this;
  if (count > 0) result.offset_ += start * stride(axis);
  result.shape_.set_trusted(axis, count);
  result.strides_.data()[axis] = stride(axis) * step;
  return result;
}

Layout Layout::broadcast_to(const Shape& shape) const {
  Layout result(shape);
  result.offset_ = offset_;
  const int added = shape.rank() - rank();
  for (int i = 0; i < shape.rank(); ++i) {
    const bool stretched = i < added || (shape_[i - added] == 1 && shape[i] != 1);
    result.strides_.data()[i] = stretched ? 0 : stride(i - added);
  }
  return result;
}

// Old axes are grouped into runs that lie in one piece; each run must be cut into whole new axes.
std::optional<Layout> Layout::reshaped(const Shape& shape) const {
  Layout result(shape);
  result.offset_ = offset_;
  if (elements() == 0) return result;
  int old_axis = 0, new_axis = 0;
  while (new_axis < shape.rank()) {
    if (shape[new_axis] == 1) {
      result.strides_.data()[new_axis++] = 1;
      continue;
    }
    while (old_axis < rank() && shape_[old_axis] == 1) ++old_axis;
    Index old_count = shape_[old_axis], new_count = shape[new_axis];
    int old_end = old_axis + 1, new_end = new_axis + 1;
    while (old_count != new_count) {
      if (new_count < old_count) {
        new_count *= shape[new_end++];
      } else {
        if (shape_[old_end] != 1) {
          int previous = old_end - 1;
          while (shape_[previous] == 1) --previous;
          if (stride(previous) != stride(old_end) * shape_[old_end]) return std::nullopt;
        }
        old_count *= shape_[old_end++];
      }
    }
    int last = old_end - 1;
    while (shape_[last] == 1) --last;
    Index step = stride(last);
    for (int i = new_end - 1; i >= new_axis; --i) {
      result.strides_.data()[i] = step;
      step *= shape[i];
    }
    old_axis = old_end;
    new_axis = new_end;
  }
  return result;
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.shape_ != b.shape_ || a.offset_ != b.offset_) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (a.stride(i) != b.stride(i)) return false;
  return true;
}

}  // namespace capstan
