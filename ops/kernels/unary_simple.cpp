// neg, abs, sign, square, reciprocal, sqrt, rsqrt, relu, and the scalar forms affine and clamp, on SIMD.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/unary_simple.cpp>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/unary_families.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/map-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

// One functor each: f(d, x).
#define CAPSTAN_UNARY(name, formula)                            \
  struct name {                                                 \
    template <class D, class T = hn::TFromD<D>>                 \
    HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const { \
      (void)d;                                                  \
      return formula;                                           \
    }                                                           \
  };
CAPSTAN_UNARY(NegOf, hn::Neg(x))
CAPSTAN_UNARY(AbsOf, hn::Abs(x))
CAPSTAN_UNARY(SignOf, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, T{1}),
                                     hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, T{-1}), x)))
CAPSTAN_UNARY(SquareOf, hn::Mul(x, x))
CAPSTAN_UNARY(ReciprocalOf, hn::Div(hn::Set(d, T{1}), x))
CAPSTAN_UNARY(SqrtOf, hn::Sqrt(x))
CAPSTAN_UNARY(RsqrtOf, hn::Div(hn::Set(d, T{1}), hn::Sqrt(x)))
CAPSTAN_UNARY(ReluOf, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x))
#undef CAPSTAN_UNARY

template <class T>
struct AffineOf {
  T scale, shift;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    return hn::Add(hn::Mul(x, hn::Set(d, scale)), hn::Set(d, shift));
  }
};

template <class T>
struct ScaleOf {
  T scale;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    return hn::Mul(x, hn::Set(d, scale));
  }
};

template <class T>
struct ClampOf {
  T low, high;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    const auto raised = hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
    return hn::IfThenElse(hn::Gt(raised, hn::Set(d, high)), hn::Set(d, high), raised);
  }
};

template <class T>
HWY_INLINE void SimpleOf(Unary op, const Piece& piece) {
  switch (op) {
    case Unary::neg: return MapOne<T>(piece, NegOf{});
    case Unary::abs: return MapOne<T>(piece, AbsOf{});
    case Unary::sign: return MapOne<T>(piece, SignOf{});
    case Unary::square: return MapOne<T>(piece, SquareOf{});
    case Unary::reciprocal: return MapOne<T>(piece, ReciprocalOf{});
    case Unary::sqrt: return MapOne<T>(piece, SqrtOf{});
    case Unary::rsqrt: return MapOne<T>(piece, RsqrtOf{});
    default: return MapOne<T>(piece, ReluOf{});
  }
}

HWY_ATTR void Simple(Unary op, DType dtype, const Piece& piece) {
  dtype == DType::f32 ? SimpleOf<float>(op, piece) : SimpleOf<double>(op, piece);
}

template <class T>
HWY_INLINE void AffinePiece(double scale, double shift, const Piece& piece) {
  // x + 0 would turn −0 into 0.
  if (shift == 0) return MapOne<T>(piece, ScaleOf<T>{static_cast<T>(scale)});
  MapOne<T>(piece, AffineOf<T>{static_cast<T>(scale), static_cast<T>(shift)});
}

HWY_ATTR void Affine(double scale, double shift, DType dtype, const Piece& piece) {
  dtype == DType::f32 ? AffinePiece<float>(scale, shift, piece) : AffinePiece<double>(scale, shift, piece);
}

HWY_ATTR void Clamp(double low, double high, DType dtype, const Piece& piece) {
  if (dtype == DType::f32)
    return MapOne<float>(piece, ClampOf<float>{static_cast<float>(low), static_cast<float>(high)});
  MapOne<double>(piece, ClampOf<double>{low, high});
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(Simple);
HWY_EXPORT(Affine);
HWY_EXPORT(Clamp);

UnaryKernel unary_simple() { return HWY_DYNAMIC_DISPATCH(Simple); }

void affine(ConstView x, double scale, double shift, View y) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(Affine);
  for_pieces(Region::elementwise, y, {x}, cheap_grain,
             [&](const Piece& piece) { kernel(scale, shift, x.dtype, piece); });
}

void clamp(ConstView x, double low, double high, View y) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(Clamp);
  for_pieces(Region::elementwise, y, {x}, cheap_grain, [&](const Piece& piece) { kernel(low, high, x.dtype, piece); });
}

}  // namespace capstan::kernels
#endif
