// sin and cos on SIMD, f32 through f64. Where |x| is large or not finite, libm takes the lane.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/unary_trig.cpp>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/unary_families.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/map-inl.h>
#include <capstan/ops/kernels/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

struct TrigOf {
  std::int64_t quadrants;  // sin: 0, cos: 1

  /// f64.
  template <class D>
  HWY_INLINE hn::Vec<D> Double(D d, hn::Vec<D> x) const {
    const auto y = SinQuadrant(d, x, quadrants);
    // Written so that NaN counts as large too.
    const auto small = hn::Le(hn::Abs(x), hn::Set(d, trigonometric_limit));
    if (HWY_LIKELY(hn::AllTrue(d, small))) return y;
    HWY_ALIGN double lanes[hn::MaxLanes(d)];
    HWY_ALIGN double values[hn::MaxLanes(d)];
    hn::Store(x, d, lanes);
    hn::Store(y, d, values);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i)
      if (!(std::abs(lanes[i]) <= trigonometric_limit))
        values[i] = quadrants == 0 ? std::sin(lanes[i]) : std::cos(lanes[i]);
    return hn::Load(d, values);
  }

  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> x) const {
    if constexpr (std::is_same_v<T, double>) {
      return Double(d, x);
    } else {
      const hn::Half<D> half;
      const hn::Rebind<double, decltype(half)> wide;
      const auto low = hn::DemoteTo(half, Double(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x))));
      const auto high = hn::DemoteTo(half, Double(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x))));
      return hn::Combine(d, high, low);
    }
  }
};

HWY_ATTR void Trig(Unary op, DType dtype, const Piece& piece) {
  const TrigOf f{op == Unary::sin ? 0 : 1};
  dtype == DType::f32 ? MapOne<float>(piece, f) : MapOne<double>(piece, f);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(Trig);

UnaryKernel unary_trig() { return HWY_DYNAMIC_DISPATCH(Trig); }

}  // namespace capstan::kernels
#endif
