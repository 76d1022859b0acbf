// exp, log, tanh, sigmoid on SIMD.
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

template <class T>
HWY_INLINE void ExponentialOf(Unary op, const Piece& piece) {
  switch (op) {
    case Unary::exp: return MapOne<T>(piece, ExpOf{});
    case Unary::log: return MapOne<T>(piece, LogOf{});
    case Unary::tanh: return MapOne<T>(piece, TanhOf{});
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
