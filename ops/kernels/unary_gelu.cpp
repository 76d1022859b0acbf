// gelu_tanh and its slope on SIMD (Hendrycks and Gimpel 2016). With v = 2 √(2/π) (x + 0.044715 x³),
// ½ (1 + tanh(v/2)) = sigmoid(v), which has no cancellation in the negative tail.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/unary_gelu.cpp>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/unary_families.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/map-inl.h>
#include <capstan/ops/kernels/math-inl.h>
#include <capstan/ops/kernels/row_loops-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

inline constexpr double two_root_two_over_pi = 1.59576912160573071176;  // 2 √(2/π)
inline constexpr double cubic = 0.044715;
// Beyond it sigmoid(v) is 0 or 1 exactly; finite factors there keep 0 · ∞ away.
inline constexpr double saturated = 1e4;

/// sigmoid(v), and its slope sigmoid(v) · sigmoid(−v). Subnormal values become 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE Sigmoid<D> GeluSigmoid(D d, hn::Vec<D> v) {
  const auto one = hn::Set(d, T{1});
  const auto e = ExpNonPositive(d, hn::Neg(hn::Abs(v)));
  const auto larger = hn::Div(one, hn::Add(one, e)), smaller = hn::Mul(e, larger);
  return {hn::IfThenElse(hn::Lt(v, hn::Zero(d)), smaller, larger), hn::Mul(smaller, larger)};
}

struct GeluTanhOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    const auto square = hn::Mul(x, x);
    const auto factor = hn::MulAdd(square, hn::Set(d, static_cast<T>(two_root_two_over_pi * cubic)),
                                   hn::Set(d, static_cast<T>(two_root_two_over_pi)));
    return Value(d, x, GeluSigmoid(d, hn::Mul(x, factor)).value);
  }
  template <class D, class T = hn::TFromD<D>>
  static HWY_INLINE hn::Vec<D> Value(D d, hn::Vec<D> x, hn::Vec<D> sigmoid) {
    const auto bound = hn::Set(d, static_cast<T>(-saturated));
    return hn::Mul(hn::IfThenElse(hn::Lt(x, bound), bound, x), sigmoid);
  }
};

struct GeluTanhSlopeOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    hn::Vec<D> sigmoid;
    return WithSigmoid(d, x, sigmoid);
  }
  /// The slope, and the sigmoid of which the value is made.
  template <class D, class T = hn::TFromD<D>>
  static HWY_INLINE hn::Vec<D> WithSigmoid(D d, hn::Vec<D> unbounded, hn::Vec<D>& value) {
    const auto bound = hn::Set(d, static_cast<T>(saturated));
    auto x = hn::IfThenElse(hn::Lt(unbounded, hn::Neg(bound)), hn::Neg(bound), unbounded);
    x = hn::IfThenElse(hn::Gt(x, bound), bound, x);
    const auto square = hn::Mul(x, x);
    const auto linear = hn::Set(d, static_cast<T>(two_root_two_over_pi));
    const auto factor = hn::MulAdd(square, hn::Set(d, static_cast<T>(two_root_two_over_pi * cubic)), linear);
    const auto dv = hn::MulAdd(square, hn::Set(d, static_cast<T>(3 * two_root_two_over_pi * cubic)), linear);
    const auto sigmoid = GeluSigmoid(d, hn::Mul(x, factor));
    value = sigmoid.value;
    // d (x s(v)) / dx = s + x s (1 − s) dv/dx
    return hn::MulAdd(hn::Mul(x, dv), sigmoid.slope, sigmoid.value);
  }
};

template <class T>
HWY_INLINE void GeluOf(Unary op, const Piece& piece) {
  op == Unary::gelu_tanh ? MapOne<T>(piece, GeluTanhOf{}) : MapOne<T>(piece, GeluTanhSlopeOf{});
}

HWY_ATTR void Gelu(Unary op, DType dtype, const Piece& piece) {
  dtype == DType::f32 ? GeluOf<float>(op, piece) : GeluOf<double>(op, piece);
}

template <class T>
HWY_INLINE void BothOf(const T* x, T* h, T* dx, Index count) {
  const hn::ScalableTag<T> d;
  RowEach<T>(count, [&](const auto& at) HWY_ATTR {
    const auto value = at.Load(x);
    hn::Vec<decltype(d)> sigmoid;
    const auto slope = GeluTanhSlopeOf::WithSigmoid(d, value, sigmoid);
    at.Store(GeluTanhOf::Value(d, value, sigmoid), h);
    at.Store(hn::Mul(slope, at.Load(dx)), dx);
  });
}
HWY_ATTR void BothF32(const float* x, float* h, float* dx, Index count) { BothOf(x, h, dx, count); }
HWY_ATTR void BothF64(const double* x, double* h, double* dx, Index count) { BothOf(x, h, dx, count); }

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(Gelu);
HWY_EXPORT(BothF32);
HWY_EXPORT(BothF64);

UnaryKernel unary_gelu() { return HWY_DYNAMIC_DISPATCH(Gelu); }

void gelu_tanh_and_gradient(ConstView x, View h, View dx) {
  const auto in_blocks = [&](auto zero, auto kernel) {
    using T = decltype(zero);
    parallel_blocks(Region::elementwise, x.elements(), costly_grain, [&](Index begin, Index end) {
      kernel(x.data<T>() + begin, h.data<T>() + begin, dx.data<T>() + begin, end - begin);
    });
  };
  x.dtype == DType::f32 ? in_blocks(0.0f, HWY_DYNAMIC_DISPATCH(BothF32))
                        : in_blocks(0.0, HWY_DYNAMIC_DISPATCH(BothF64));
}

}  // namespace capstan::kernels
#endif
