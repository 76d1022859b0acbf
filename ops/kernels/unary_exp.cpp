// exp, log, tanh, and what is made of sigmoid(x), on SIMD.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/unary_exp.cpp>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/unary_families.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/map-inl.h>
#include <capstan/ops/kernels/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

struct ExpOf {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    return Exp(d, x);
  }
};
struct LogOf {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    return Log(d, x);
  }
};
struct TanhOf {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    return Tanh(d, x);
  }
};
struct LogisticOf {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    return SigmoidOf(d, x).value;
  }
};
struct LogisticSlopeOf {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    return SigmoidOf(d, x).slope;
  }
};
struct SoftplusOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    const auto one = hn::Set(d, T{1});
    const auto e = Exp(d, hn::Neg(hn::Abs(x)));
    // log(1 + e) with the part of e that the sum 1 + e rounds away.
    const auto u = hn::Add(one, e);
    const auto lost = hn::Sub(e, hn::Sub(u, one));
    const auto log = hn::Add(Log(d, u), hn::Div(lost, u));
    return hn::Add(hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), x), log);
  }
};

// Beyond it sigmoid(x) is 0 or 1 exactly; finite factors there keep 0 · ∞ away.
inline constexpr double saturated = 1e4;

struct SiluOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    const auto low = hn::Set(d, static_cast<T>(-saturated));
    return hn::Mul(hn::IfThenElse(hn::Lt(x, low), low, x), SigmoidOf(d, x).value);
  }
};
struct SiluSlopeOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> unbounded) const {
    const auto bound = hn::Set(d, static_cast<T>(saturated));
    auto x = hn::IfThenElse(hn::Lt(unbounded, hn::Neg(bound)), hn::Neg(bound), unbounded);
    x = hn::IfThenElse(hn::Gt(x, bound), bound, x);
    const auto sigmoid = SigmoidOf(d, x);
    return hn::MulAdd(x, sigmoid.slope, sigmoid.value);
  }
};

template <class T>
HWY_INLINE void ExponentialOf(Unary op, const Piece& piece) {
  switch (op) {
    case Unary::exp: return MapOne<T>(piece, ExpOf{});
    case Unary::log: return MapOne<T>(piece, LogOf{});
    case Unary::tanh: return MapOne<T>(piece, TanhOf{});
    case Unary::sigmoid_slope: return MapOne<T>(piece, LogisticSlopeOf{});
    case Unary::softplus: return MapOne<T>(piece, SoftplusOf{});
    case Unary::silu: return MapOne<T>(piece, SiluOf{});
    case Unary::silu_slope: return MapOne<T>(piece, SiluSlopeOf{});
    default: return MapOne<T>(piece, LogisticOf{});
  }
}

HWY_ATTR void Exponential(Unary op, DType dtype, const Piece& piece) {
  dtype == DType::f32 ? ExponentialOf<float>(op, piece) : ExponentialOf<double>(op, piece);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(Exponential);

UnaryKernel unary_exp() { return HWY_DYNAMIC_DISPATCH(Exponential); }

}  // namespace capstan::kernels
#endif
