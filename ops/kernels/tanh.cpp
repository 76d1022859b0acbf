// dy ⊙ (1 − y²) in one pass.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/tanh.cpp>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/tanh.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/map-inl.h>  // after Highway, whose vectors it uses

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

struct TanhBackwardOf {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> y, hn::Vec<D> dy) const {
    return hn::Mul(dy, hn::NegMulAdd(y, y, hn::Set(d, hn::TFromD<D>{1})));
  }
};

HWY_ATTR void TanhBackward(DType dtype, const Piece& piece) {
  dtype == DType::f32 ? MapTwo<float>(piece, TanhBackwardOf{}) : MapTwo<double>(piece, TanhBackwardOf{});
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(TanhBackward);

void tanh_backward(ConstView y, ConstView dy, View dx) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(TanhBackward);
  for_pieces(Region::elementwise, dx, {y, dy}, cheap_grain, [&](const Piece& piece) { kernel(dx.dtype, piece); });
}

}  // namespace capstan::kernels
#endif
