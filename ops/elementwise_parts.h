// What the element-by-element families share: type rules and shortcuts. Internal to the ops layer.
#pragma once

#include <capstan/autograd/op.h>
#include <capstan/ops/kernels/elementwise.h>
#include <capstan/ops/require.h>

#include <utility>

namespace capstan::ops {

/// One operand, f32 or f64, and a result like it.
inline Types infer_float(std::string_view name, Inputs in) {
  require_float(name, "x", in[0]);
  return {Type{in[0].shape(), in[0].dtype()}};
}

/// dy ⊙ slope(x), in place of dy if nobody else needs it.
inline Tensors times_slope(const Call& c, kernels::Unary slope) {
  if (Tensor own = c.take_dout(0); own.defined()) {
    Buffer dx = std::move(own).to_buffer();
    kernels::unary_times(slope, c.in(0).view(), dx.view(), dx.view());
    return {std::move(dx)};
  }
  Buffer dx = c.new_gradient(0);
  kernels::unary_times(slope, c.in(0).view(), c.dout(0).view(), dx.view());
  return {std::move(dx)};
}

/// gelu_tanh's slope at x, in ops (activation.cpp).
Tensor gelu_tanh_slope(const Tensor& x);

/// A few dense elements are done before a strided loop is set up: on scalars, that costs more than all the rest.
inline constexpr Index few = 64;

template <class F>
bool few_floats(const Tensor& a, const Tensor& b, const View& y, F f) {
  if (y.elements() > few || !is_float(y.dtype) || !(a.shape() == b.shape()) || !a.contiguous() || !b.contiguous())
    return false;
  visit_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *at_a = a.view().data<T>(), *at_b = b.view().data<T>();
    T* out = y.data<T>();
    for (Index i = 0, count = y.elements(); i < count; ++i) out[i] = f(at_a[i], at_b[i]);
  });
  return true;
}

}  // namespace capstan::ops
