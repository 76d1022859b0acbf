// Sums and gradients of one row of logits, on SIMD.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/cross_entropy_rows.cpp>
#include <capstan/ops/kernels/cross_entropy_rows.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/math-inl.h>
#include <capstan/ops/kernels/row_loops-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE RowTerms Terms(const T* x, Index count, bool with_sum) {
  const hn::ScalableTag<T> d;
  const T largest = RowMax(x, count);
  const auto shift = hn::Set(d, largest);
  const double sum_exp =
      RowSum<T>(count, [&](const auto& at) HWY_ATTR { return ExpNonPositive(d, hn::Sub(at.Load(x), shift)); });
  const double sum =
      with_sum ? RowSum<T>(count, [&](const auto& at) HWY_ATTR { return hn::Sub(at.Load(x), shift); }) : 0.0;
  return {static_cast<double>(largest), sum_exp, sum};
}

template <class T>
HWY_INLINE void Gradient(const T* x, T* dx, Index count, double scale, double uniform) {
  const hn::ScalableTag<T> d;
  const auto shift = hn::Set(d, RowMax(x, count));
  const double sum_exp = RowSum<T>(count, [&](const auto& at) HWY_ATTR {
    const auto e = ExpNonPositive(d, hn::Sub(at.Load(x), shift));
    at.Store(e, dx);
    return e;
  });
  const auto inverse = hn::Set(d, static_cast<T>(1.0 / sum_exp));
  const auto scale_v = hn::Set(d, static_cast<T>(scale));
  const auto uniform_v = hn::Set(d, static_cast<T>(uniform));
  RowEach<T>(count, [&](const auto& at) HWY_ATTR {
    at.Store(hn::Mul(scale_v, hn::Sub(hn::Mul(at.Load(dx), inverse), uniform_v)), dx);
  });
}

HWY_ATTR RowTerms TermsF32(const float* x, Index n, bool with_sum) { return Terms(x, n, with_sum); }
HWY_ATTR RowTerms TermsF64(const double* x, Index n, bool with_sum) { return Terms(x, n, with_sum); }
HWY_ATTR void GradientF32(const float* x, float* dx, Index n, double scale, double uniform) {
  Gradient(x, dx, n, scale, uniform);
}
HWY_ATTR void GradientF64(const double* x, double* dx, Index n, double scale, double uniform) {
  Gradient(x, dx, n, scale, uniform);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(TermsF32);
HWY_EXPORT(TermsF64);
HWY_EXPORT(GradientF32);
HWY_EXPORT(GradientF64);

CrossEntropyRows<float> cross_entropy_rows(float) {
  return {HWY_DYNAMIC_DISPATCH(TermsF32), HWY_DYNAMIC_DISPATCH(GradientF32)};
}
CrossEntropyRows<double> cross_entropy_rows(double) {
  return {HWY_DYNAMIC_DISPATCH(TermsF64), HWY_DYNAMIC_DISPATCH(GradientF64)};
}

}  // namespace capstan::kernels
#endif
