// Layer norm of one row, forward and backward, on SIMD. The mean is held as a rounded value and a remainder, so that
// rows far from 0 keep their digits in f32 too. RMS norm is the same about 0 instead of the mean.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/layer_norm_rows.cpp>
#include <capstan/ops/kernels/layer_norm_rows.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/row_loops-inl.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

enum class About { mean, zero };

template <class T>
HWY_INLINE double MeanOf(const T* x, Index count) {
  return RowSum<T>(count, [&](const auto& at) HWY_ATTR { return at.Load(x); }) / static_cast<double>(count);
}

/// x − mean, in two steps: the first one is exact or nearly so where it matters. About 0: x itself.
template <class T, About about>
struct Centre {
  T high, low;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    if constexpr (about == About::zero) {
      return x;
    } else {
      return hn::Sub(hn::Sub(x, hn::Set(d, high)), hn::Set(d, low));
    }
  }
};
/// A mean from the rounded one, made exact again by the mean of what is left.
template <About about, class T>
HWY_INLINE Centre<T, about> CentreAt(const T* x, Index count, T mean) {
  if constexpr (about == About::zero) return {0, 0};
  const hn::ScalableTag<T> d;
  const auto mean_v = hn::Set(d, mean);
  const double rest = RowSum<T>(count, [&](const auto& at) HWY_ATTR { return hn::Sub(at.Load(x), mean_v); });
  return {mean, static_cast<T>(rest / static_cast<double>(count))};
}

template <About about, class T>
HWY_INLINE RowStatistics ForwardRow(const T* x, const T* r, const T* weight, const T* bias, double eps, T* sum, T* y,
                                    Index count) {
  const hn::ScalableTag<T> d;
  if (r != nullptr) {
    RowEach<T>(count, [&](const auto& at) HWY_ATTR { at.Store(hn::Add(at.Load(x), at.Load(r)), sum); });
    x = sum;
  }
  const Centre<T, about> centre =
      CentreAt<about>(x, count, about == About::zero ? T{} : static_cast<T>(MeanOf(x, count)));
  const double squares = RowSum<T>(count, [&](const auto& at) HWY_ATTR {
    const auto z = centre(d, at.Load(x));
    return hn::Mul(z, z);
  });
  const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(count) + eps);
  const auto rstd_v = hn::Set(d, static_cast<T>(rstd));
  RowEach<T>(count, [&](const auto& at) HWY_ATTR {
    auto value = hn::Mul(centre(d, at.Load(x)), rstd_v);
    if (weight != nullptr) value = hn::Mul(value, at.Load(weight));
    if (bias != nullptr) value = hn::Add(value, at.Load(bias));
    at.Store(value, y);
  });
  return {static_cast<double>(centre.high) + static_cast<double>(centre.low), rstd};
}

/// sums[0] += dy · x̂ and, about the mean, sums[1] += dy, in f64.
template <class T, About about>
HWY_INLINE void AddSums(const T* x, const T* dy, const Centre<T, about>& centre, T rstd, double* sums, Index count) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<T, decltype(wide)> narrow;
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(wide));
  const auto widened = [&](auto v) HWY_ATTR {
    if constexpr (std::is_same_v<T, double>) {
      return v;
    } else {
      return hn::PromoteTo(wide, v);
    }
  };
  const auto rstd_v = hn::Set(narrow, rstd);
  for (Index j = 0; j < count; j += lanes) {
    const Index used = std::min(lanes, count - j);
    const auto value = LoadPart(narrow, x + j, used);
    const auto normal = widened(hn::Mul(centre(narrow, value), rstd_v));
    const auto up = widened(LoadPart(narrow, dy + j, used));
    double* weights = sums + j;
    StorePart(hn::MulAdd(up, normal, LoadPart(wide, weights, used)), wide, weights, used);
    if constexpr (about == About::zero) continue;
    double* biases = sums + count + j;
    StorePart(hn::Add(LoadPart(wide, biases, used), up), wide, biases, used);
  }
}

/// dx of a row; null if not wanted. dweight and dbias are added to `sums` (f64, [2, count]); null if neither is wanted.
template <About about, class T>
HWY_INLINE void BackwardRow(const T* x, const T* dy, const T* weight, T mean, T rstd, T* dx, bool add_to_dx,
                            double* sums, Index count) {
  const hn::ScalableTag<T> d;
  const Centre<T, about> centre = CentreAt<about>(x, count, mean);
  const auto rstd_v = hn::Set(d, rstd);
  const auto gradient = [&](const auto& at) HWY_ATTR {
    return weight == nullptr ? at.Load(dy) : hn::Mul(at.Load(dy), at.Load(weight));
  };
  if (dx != nullptr) {
    const double inverse = 1.0 / static_cast<double>(count);
    const double sum = about == About::zero ? 0 : RowSum<T>(count, gradient);
    const double dot = RowSum<T>(
        count, [&](const auto& at) HWY_ATTR { return hn::Mul(gradient(at), hn::Mul(centre(d, at.Load(x)), rstd_v)); });
    const auto mean_g = hn::Set(d, static_cast<T>(sum * inverse)), mean_gx = hn::Set(d, static_cast<T>(dot * inverse));
    RowEach<T>(count, [&](const auto& at) HWY_ATTR {
      const auto normal = hn::Mul(centre(d, at.Load(x)), rstd_v);
      const auto value = hn::NegMulAdd(normal, mean_gx, hn::Sub(gradient(at), mean_g));
      at.Store(add_to_dx ? hn::MulAdd(rstd_v, value, at.Load(dx)) : hn::Mul(rstd_v, value), dx);
    });
  }
  if (sums != nullptr) AddSums(x, dy, centre, rstd, sums, count);
}

// One function for HWY_EXPORT each: it takes no templates.
#define CAPSTAN_NORM_ROWS(suffix, T, about)                                                                          \
  HWY_ATTR RowStatistics Forward##suffix(const T* x, const T* r, const T* w, const T* b, double eps, T* sum, T* y,   \
                                         Index n) {                                                                  \
    return ForwardRow<about>(x, r, w, b, eps, sum, y, n);                                                            \
  }                                                                                                                  \
  HWY_ATTR void Backward##suffix(const T* x, const T* dy, const T* w, T mean, T rstd, T* dx, bool add, double* sums, \
                                 Index n) {                                                                          \
    BackwardRow<about>(x, dy, w, mean, rstd, dx, add, sums, n);                                                      \
  }
CAPSTAN_NORM_ROWS(F32, float, About::mean)
CAPSTAN_NORM_ROWS(F64, double, About::mean)
CAPSTAN_NORM_ROWS(RmsF32, float, About::zero)
CAPSTAN_NORM_ROWS(RmsF64, double, About::zero)
#undef CAPSTAN_NORM_ROWS

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(BackwardF64);
HWY_EXPORT(ForwardRmsF32);
HWY_EXPORT(ForwardRmsF64);
HWY_EXPORT(BackwardRmsF32);
HWY_EXPORT(BackwardRmsF64);

LayerNormRows<float> layer_norm_rows(float) {
  return {HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(BackwardF32)};
}
LayerNormRows<double> layer_norm_rows(double) {
  return {HWY_DYNAMIC_DISPATCH(ForwardF64), HWY_DYNAMIC_DISPATCH(BackwardF64)};
}
LayerNormRows<float> rms_norm_rows(float) {
  return {HWY_DYNAMIC_DISPATCH(ForwardRmsF32), HWY_DYNAMIC_DISPATCH(BackwardRmsF32)};
}
LayerNormRows<double> rms_norm_rows(double) {
  return {HWY_DYNAMIC_DISPATCH(ForwardRmsF64), HWY_DYNAMIC_DISPATCH(BackwardRmsF64)};
}

}  // namespace capstan::kernels
#endif
