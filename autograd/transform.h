// Derivatives as functions: value_and_grad, grad, vjp, jvp and hvp of a closure. They record on the tape of their inputs if
// there is one, else on a tape of their own that is gone when they return; so they nest, and closures may capture recorded
// tensors. Not for: whole Jacobians and Hessians (ops/derivatives.h), recomputation (checkpoint.h).
#pragma once

#include <capstan/autograd/fields.h>
#include <capstan/autograd/tensor.h>

#include <span>
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
  /// Gradients of ⟨cotangent, y⟩; an empty cotangent stands for 1, and y must be a scalar then. With `keep` it may be called
  /// again.
  void backward(const Tensor& y, const Tensor& cotangent, bool keep = false);
  /// The same for Σ ⟨cotangent, y⟩ over several; a y that is a constant, or has no cotangent, adds nothing.
  void backward(std::span<const Tensor> y, std::span<const Tensor> cotangents, bool keep = false);
  /// The derivative of y along a tangent for each watched tensor.
  Tensor forward(const Tensor& y, std::span<const Tensor> tangents);
  /// The gradients in the order of `watch`; an empty tensor for one that passed through.
  Tensor next_gradient();
  /// y as it may leave: recorded on the inputs' tape, or a constant.
  Tensor leave(const Tensor& y) const;

  /// An Error if f consumed or destroyed the tape that its argument stands on. The derivatives ask by themselves.
  void check_argument_lives() const;

 private:
  TapeState* tape() const;
  std::vector<Value*> targets() const;

  const char* name_;
  TapeState* outer_ = nullptr;
  TapeState* own_ = nullptr;
  std::vector<Tensor> watched_;
  std::vector<Tensor> gradients_;
  std::size_t next_ = 0;
};

}  // namespace detail

/// A value and its derivative along a tangent.
struct ValueAndTangent {
  Tensor value;
  Tensor tangent;
};

/// A value and the gradient of a structure, itself of the structure's type.
template <class S>
struct ValueAndGradient {
  Tensor value;
  S gradient;
};

namespace detail {
void require_cotangent(const Tensor& cotangent);
/// An Error unless `direction` may stand beside x: the same shape and dtype if x is f32 or f64; `path` names it.
void require_like(const char* name, const char* what, const Tensor& direction, const Tensor& x,
                  const std::string& path);
void require_count(const char* name, const char* what, std::size_t directions, std::size_t tensors);

/// All differentiable tensors of a structure.
template <class S>
std::vector<Tensor> tensors_of(const S& structure) {
  std::vector<Tensor> list;
  for_each_tensor(structure, [&](const Tensor& x) { list.push_back(x); });
  return list;
}

/// The tensors of a direction (v, a tangent), checked against those of x.
template <class S>
std::vector<Tensor> directions_of(const char* name, const char* what, const S& direction, const S& x) {
  std::vector<Tensor> list = tensors_of(direction);
  std::size_t i = 0;
  walk(x, [&](const Path& path, const auto& leaf) {
    const Tensor* tensor = differentiable(leaf);
    if (!tensor) return;
    if (i < list.size()) require_like(name, what, list[i], *tensor, path.str());
    ++i;
  });
  require_count(name, what, list.size(), i);
  return list;
}

/// A copy of x whose tensors the transform watches.
template <class S>
S watched_copy(Transform& transform, const S& x) {
  S watched = x;
  for_each_tensor(watched, [&](Tensor& input) { input = transform.watch(input); });
  return watched;
}

/// x with the transform's gradients in place of its tensors.
template <class S>
S gradients_like(Transform& transform, const S& x) {
  S gradient = x;
  for_each_tensor(gradient, [&](Tensor& input) { input = transform.next_gradient(); });
  return gradient;
}

template <class S, class F>
ValueAndGradient<S> differentiate(const char* name, const S& x, F&& f, const Tensor& cotangent) {
  Transform transform(name);
  for_each_tensor(x, [&](const Tensor& input) { transform.consider(input); });
  if (cotangent.defined()) transform.consider(cotangent);
  const S watched = watched_copy(transform, x);
  const Tensor y = std::forward<F>(f)(watched);
  transform.backward(y, cotangent);
  S gradient = gradients_like(transform, x);
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
/// An f that does not use its argument has gradient zero, and so has the slip [&](const M&) { return loss(model); }, which
/// captures the model in place of the watched copy. This cannot be an Error: the gradient of a linear function is such a
/// constant, and its own gradient, the second derivative, is rightly zero.
template <class S, class F>
ValueAndGradient<S> value_and_grad(const S& x, F&& f) {
  return detail::differentiate("value_and_grad", x, std::forward<F>(f), Tensor());
}

/// ∂f/∂x alone.
template <class S, class F>
S grad(const S& x, F&& f) {
  return detail::differentiate("grad", x, std::forward<F>(f), Tensor()).gradient;
}

/// y = f(x) and ∂y/∂x · tangent, the Jacobian times a vector of x's structure; f is called once. By two backward passes: the
/// gradient u ↦ (∂y/∂x)ᵀ u is linear in u, and the gradient of ⟨(∂y/∂x)ᵀ u, tangent⟩ by u is what is sought. Forward mode
/// would be about twice as fast, but every op would need a second rule to prove.
/// jvp([1, 2], square, [1, 10]) has the tangent [2, 40]. Errors: a tangent of another structure, shape or dtype than x (what is
/// neither f32 nor f64 is not looked at); f's result is neither f32 nor f64.
template <class S, class F>
ValueAndTangent jvp(const S& x, F&& f, const S& tangent) {
  detail::Transform transform("jvp");
  const std::vector<Tensor> tangents = detail::directions_of("jvp", "the tangent", tangent, x);
  for_each_tensor(x, [&](const Tensor& input) { transform.consider(input); });
  for (const Tensor& direction : tangents) transform.consider(direction);
  const S watched = detail::watched_copy(transform, x);
  const Tensor y = std::forward<F>(f)(watched);
  Tensor along = transform.forward(y, tangents);
  return {transform.leave(y), std::move(along)};
}

/// The Hessian of a scalar f times v, ∂²f/∂x² · v, of x's structure (as v must be), at the price of a few gradients: the
/// gradient of ⟨∂f/∂x, v⟩ (Pearlmutter 1994). The Hessian itself is never built; see hessian() in ops/derivatives.h.
/// hvp([1, 2], Σ x³, [1, 10]) = [6, 120]. Errors: f's result is not a scalar; v of another structure, shape or dtype than x.
template <class S, class F>
S hvp(const S& x, F&& f, const S& v) {
  detail::Transform transform("hvp");
  const std::vector<Tensor> directions = detail::directions_of("hvp", "v", v, x);
  for_each_tensor(x, [&](const Tensor& input) { transform.consider(input); });
  for (const Tensor& direction : directions) transform.consider(direction);
  const S watched = detail::watched_copy(transform, x);
  const S gradient = detail::differentiate("hvp", watched, std::forward<F>(f), Tensor()).gradient;
  transform.backward(detail::tensors_of(gradient), directions);
  return detail::gradients_like(transform, x);
}

}  // namespace capstan
