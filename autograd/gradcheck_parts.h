// What the gradient check is put together from: single elements of strided tensors, and the verdict over all comparisons.
// Internal to autograd/*.cpp.
#pragma once

#include <capstan/autograd/gradcheck.h>

namespace capstan::detail {

/// The index of element `element` in row-major order.
std::vector<Index> unravel(Index element, const Shape& shape);
/// Where that element lies, in elements from the storage's start.
Index position_of(const Layout& layout, Index element);

template <class T>
T element_of(const Tensor& x, Index element) {
  return static_cast<const T*>(x.view().bytes)[position_of(x.layout(), element)];
}

/// An f64 x in memory of its own with one logical element replaced; strides and offset stay, unless elements share memory.
Tensor with_element(const Tensor& x, Index element, double value);

/// The derivative that is compared: of the contraction with one set of cotangents, by one element of an input or cotangent.
struct Place {
  int order;
  std::string_view cotangents;  // "output 1", "all outputs"
  std::string of;               // "input 0", "weight", "the cotangent of output 1"
  const Shape& shape;
  Index element;
};

/// Counts comparisons, keeps the worst error of each order and the sentence of the lowest failing order's worst failure.
class Verdict {
 public:
  explicit Verdict(const GradcheckOptions& options) : options_(options) {}
  void compare(const Place& place, double analytic, double numeric, double contracted);
  void compare_zero(const Place& place, double analytic);
  const GradcheckReport& report() const { return report_; }

 private:
  bool worse(int order, double error);
  std::string sentence(const Place& place, const char* must) const;
  const GradcheckOptions& options_;
  GradcheckReport report_;
  int failing_order_ = 0;
  double worst_failure_ = 0;
};

}  // namespace capstan::detail
