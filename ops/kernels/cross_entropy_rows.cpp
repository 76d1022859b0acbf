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
HWY_INLINE double WeightedSum(const T* x, const T* weights, Index count, T largest) {
  const hn::ScalableTag<T> d;
  const auto shift = hn::Set(d, largest);
  if (weights == nullptr)
    return RowSum<T>(count, [&](const auto& at) HWY_ATTR { return hn::Sub(at.Load(x), shift); });
  return RowSum<T>(count, [&](const auto& at) HWY_ATTR {
    const auto w = at.Load(weights);
    // 0 · −∞ would be NaN.
    return hn::IfThenElseZero(hn::Ne(w, hn::Zero(d)), hn::Mul(w, hn::Sub(at.Load(x), shift)));
  });
}

template <class T>
HWY_INLINE RowTerms Terms(const T* x, const T* weights, Index count, bool with_sum) {
  const hn::ScalableTag<T> d;
  const T largest = RowMax(x, count);
  const auto shift = hn::Set(d, largest);
  const double sum_exp =
      RowSum<T>(count, [&](const auto& at) HWY_ATTR { return ExpNonPositive(d, hn::Sub(at.Load(x), shift)); });
  return {static_cast<double>(largest), sum_exp, with_sum ? WeightedSum(x, weights, count, largest) : 0.0};
}

template <class T>
HWY_INLINE RowTerms Gradient(const T* x, const T* weights, T* dx, Index count, double scale, double total,
                             double uniform) {
  const hn::ScalableTag<T> d;
  const T largest = RowMax(x, count);
  const auto shift = hn::Set(d, largest);
  const double sum = uniform != 0 ? WeightedSum(x, weights, count, largest) : 0.0;
  const double sum_exp = RowSum<T>(count, [&](const auto& at) HWY_ATTR {
    const auto e = ExpNonPositive(d, hn::Sub(at.Load(x), shift));
    at.Store(e, dx);
    return e;
  });
  const auto inverse = hn::Set(d, static_cast<T>(total / sum_exp));
  const auto scale_v = hn::Set(d, static_cast<T>(scale));
  const auto uniform_v = hn::Set(d, static_cast<T>(uniform));
  RowEach<T>(count, [&](const auto& at) HWY_ATTR {
    const auto taken = weights == nullptr ? uniform_v : hn::Mul(uniform_v, at.Load(weights));
    at.Store(hn::Mul(scale_v, hn::Sub(hn::Mul(at.Load(dx), inverse), taken)), dx);
  });
  return {static_cast<double>(largest), sum_exp, sum};
}

HWY_ATTR RowTerms TermsF32(const float* x, const float* w, Index n, bool with_sum) { return Terms(x, w, n, with_sum); }
HWY_ATTR RowTerms TermsF64(const double* x, const double* w, Index n, bool with_sum) {
  return Terms(x, w, n, with_sum);
}
HWY_ATTR RowTerms GradientF32(const float* x, const float* w, float* dx, Index n, double scale, double total,
                              double uniform) {
  return Gradient(x, w, dx, n, scale, total, uniform);
}
HWY_ATTR RowTerms GradientF64(const double* x, const double* w, double* dx, Index n, double scale, double total,
                              double uniform) {
  return Gradient(x, w, dx, n, scale, total, uniform);
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
