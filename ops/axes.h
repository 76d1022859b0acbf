// A short list of axes, as reductions and permutations take it: sum(x, {0, -1}). Not for: sizes (shape.h).
#pragma once

#include <capstan/autograd/shape.h>

#include <concepts>
#include <initializer_list>

namespace capstan {

/// Up to 8 axes in the order given; negative ones count from the end. One axis converts by itself: sum(x, -1).
class Axes {
 public:
  Axes() = default;
  Axes(std::initializer_list<int> axes) {
    for (const int axis : axes) push_back(axis);
  }
  /// Exactly an int: a bool in this place is a forgotten list of axes.
  template <std::same_as<int> I>
  Axes(I axis) {
    push_back(axis);
  }
  /// An Error beyond 8.
  void push_back(int axis) {
    if (count_ == max_rank) too_many();
    axes_[count_++] = axis;
  }

  int size() const { return count_; }
  int operator[](int i) const { return axes_[i]; }
  const int* begin() const { return axes_; }
  const int* end() const { return axes_ + count_; }

 private:
  [[noreturn]] static void too_many();
  int axes_[max_rank] = {};
  int count_ = 0;
};

/// "{0, -1}".
std::string to_string(const Axes& axes);

}  // namespace capstan
