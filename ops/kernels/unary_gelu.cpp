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

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

inline constexpr double two_root_two_over_pi = 1.59576912160573071176;  // 2 √(2/π)
inline constexpr double cubic = 0.044715;
// Beyond it sigmoid(v) is 0 or 1 exactly; finite factors there keep 0 · ∞ away.
inline constexpr double saturated = 1e4;

struct GeluTanhOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    const auto square = hn::Mul(x, x);
    const auto factor = hn::MulAdd(square, hn::Set(d, static_cast<T>(two_root_two_over_pi * cubic)),
                                   hn::Set(d, static_cast<T>(two_root_two_over_pi)));
    const auto raised =
        hn::IfThenElse(hn::Lt(x, hn::Set(d, static_cast<T>(-saturated))), hn::Set(d, static_cast<T>(-saturated)), x);
    return hn::Mul(raised, SigmoidOf(d, hn::Mul(x, factor)).value);
  }
};

struct GeluTanhSlopeOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> unbounded) const {
    const auto bound = hn::Set(d, static_cast<T>(saturated));
    auto x = hn::IfThenElse(hn::Lt(unbounded, hn::Neg(bound)), hn::Neg(bound), unbounded);
    x = hn::IfThenElse(hn::Gt(x, bound), bound, x);
    const auto square = hn::Mul(x, x);
    const auto linear = hn::Set(d, static_cast<T>(two_root_two_over_pi));
    const auto factor = hn::MulAdd(square, hn::Set(d, static_cast<T>(two_root_two_over_pi * cubic)), linear);
    const auto dv = hn::MulAdd(square, hn::Set(d, static_cast<T>(3 * two_root_two_over_pi * cubic)), linear);
    const auto sigmoid = SigmoidOf(d, hn::Mul(x, factor));
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

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(Gelu);

UnaryKernel unary_gelu() { return HWY_DYNAMIC_DISPATCH(Gelu); }

}  // namespace capstan::kernels
#endif
