// Derivatives as functions: value_and_grad, grad and vjp of a closure. They record on the tape of their inputs if there is
// one, else on a tape of their own that is gone when they return; so they nest, and closures may capture recorded tensors.
#pragma once

#include <capstan/autograd/fields.h>
#include <capstan/autograd/tensor.h>

#include <utility>
#include <vector>

namespace capstan {

namespace detail {

/// One differentiation: looks at the inputs, watches them, and runs backward from the result.
class Transform {
 public:
  explicit Transform(const char* name) : name_(name) {}
  ~Transform();
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  /// Every input (and cotangent) is shown first: if one is recorded, its tape is used.
  void consider(const Tensor& x);
  /// x as the leaf that gradients are taken for; tensors that are not f32 or f64 pass through.
  Tensor watch(const Tensor& x);
  /// Gradients of ⟨cotangent, y⟩; an empty cotangent stands for 1, and y must be a scalar then.
  void backward(const Tensor& y, const Tensor& cotangent);
  /// The gradients in the order of `watch`; an empty tensor for one that passed through.
  Tensor next_gradient();
  /// y as it may leave: recorded on the inputs' tape, or a constant.
  Tensor leave(const Tensor& y) const;

 private:
  const char* name_;
  TapeState* outer_ = nullptr;
  TapeState* own_ = nullptr;
  std::vector<Tensor> watched_;
  std::vector<Tensor> gradients_;
  std::size_t next_ = 0;
};

}  // namespace detail

/// A value and the gradient of a structure, itself of the structure's type.
template <class S>
struct ValueAndGradient {
  Tensor value;
  S gradient;
};

namespace detail {
void require_cotangent(const Tensor& cotangent);

template <class S, class F>
ValueAndGradient<S> differentiate(const char* name, const S& x, F&& f, const Tensor& cotangent) {
  Transform transform(name);
  for_each_tensor(x, [&](const Tensor& input) { transform.consider(input); });
  if (cotangent.defined()) transform.consider(cotangent);
  S watched = x;
  for_each_tensor(watched, [&](Tensor& input) { input = transform.watch(input); });
  const Tensor y = std::forward<F>(f)(std::as_const(watched));
  transform.backward(y, cotangent);
  S gradient = x;
  for_each_tensor(gradient, [&](Tensor& input) { input = transform.next_gradient(); });
  return {transform.leave(y), std::move(gradient)};
}
}  // namespace detail

/// y = f(x) and xᵀ-gradient Σ cotangent · ∂y/∂x: the vector–Jacobian product. x is a tensor, a vector of tensors or a
/// module; f is called once, with a watched copy. Gradients are with respect to the argument only: what f captures is a
/// constant here, but recorded on its own tape, so that outer derivatives see it. Errors: the cotangent is an empty handle or does not fit y.
template <class S, class F>
ValueAndGradient<S> vjp(const S& x, F&& f, const Tensor& cotangent) {
  detail::require_cotangent(cotangent);
  return detail::differentiate("vjp", x, std::forward<F>(f), cotangent);
}

/// f(x) and its gradient ∂f/∂x for a scalar f; an Error if f's result is not a scalar.
template <class S, class F>
ValueAndGradient<S> value_and_grad(const S& x, F&& f) {
  return detail::differentiate("value_and_grad", x, std::forward<F>(f), Tensor());
}

/// ∂f/∂x alone.
template <class S, class F>
S grad(const S& x, F&& f) {
  return detail::differentiate("grad", x, std::forward<F>(f), Tensor()).gradient;
}

}  // namespace capstan
