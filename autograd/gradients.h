// What backward returns: a gradient for each watched tensor. A value; nothing to zero.
#pragma once

#include <capstan/autograd/fields.h>
#include <capstan/autograd/small.h>
#include <capstan/autograd/tensor.h>

namespace capstan {

class Gradients {
 public:
  /// The gradient of a watched tensor, of its shape and dtype; zeros if the roots do not depend on it. An Error for a
  /// tensor that was not watched.
  Tensor of(const Tensor& x) const;

  /// The gradients of a watched structure (a module, a vector of tensors …) as one of the same type.
  template <class S>
  requires(!std::is_same_v<S, Tensor>) S of(const S& structure)
  const {
    S result = structure;
    for_each_tensor(result, [&](Tensor& x) { x = of(x); });
    return result;
  }

  /// False if the roots do not depend on a watched x.
  bool reached(const Tensor& x) const;
  /// How many watched tensors the roots do not depend on.
  int unreached() const;

 private:
  friend class Tape;
  struct Entry {
    detail::Link link;
    Tensor gradient;  // empty if not reached
    Entry() noexcept {}
  };
  const Entry& find(const Tensor& x) const;
  Small<Entry, 4> entries_;
};

}  // namespace capstan
