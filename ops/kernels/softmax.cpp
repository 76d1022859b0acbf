// Softmax, log-softmax and log-sum-exp, forward and backward: row loops on SIMD.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/softmax.cpp>
#include <capstan/ops/kernels/rows.h>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/softmax.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/math-inl.h>
#include <capstan/ops/kernels/row_loops-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void SoftmaxRowOf(const T* x, T* y, Index count) {
  using D = hn::ScalableTag<T>;
  const D d;
  const auto largest = hn::Set(d, RowMax(x, count));
  const double sum = RowSum<T>(count, [&](const auto& at) HWY_ATTR {
    const auto e = ExpNonPositive(d, hn::Sub(at.Load(x), largest));
    at.Store(e, y);
    return e;
  });
  const auto inverse = hn::Set(d, static_cast<T>(1.0 / sum));
  RowEach<T>(count, [&](const auto& at) HWY_ATTR { at.Store(hn::Mul(at.Load(y), inverse), y); });
}

template <class T>
HWY_INLINE void LogSoftmaxRowOf(const T* x, T* y, Index count) {
  const hn::ScalableTag<T> d;
  const auto largest = hn::Set(d, RowMax(x, count));
  const double sum =
      RowSum<T>(count, [&](const auto& at) HWY_ATTR { return ExpNonPositive(d, hn::Sub(at.Load(x), largest)); });
  const auto log_sum = hn::Set(d, static_cast<T>(std::log(sum)));
  RowEach<T>(count, [&](const auto& at) HWY_ATTR { at.Store(hn::Sub(hn::Sub(at.Load(x), largest), log_sum), y); });
}

template <class T>
HWY_INLINE T LogSumExpRowOf(const T* x, Index count) {
  const hn::ScalableTag<T> d;
  const T top = RowMax(x, count);
  if (std::isinf(top)) {
    // Subtracting it would make NaN. Whether RowMax saw a NaN is not known.
    for (Index i = 0; i < count; ++i)
      if (std::isnan(x[i])) return x[i];
    return top;
  }
  const auto largest = hn::Set(d, top);
  const double sum =
      RowSum<T>(count, [&](const auto& at) HWY_ATTR { return ExpNonPositive(d, hn::Sub(at.Load(x), largest)); });
  return static_cast<T>(static_cast<double>(top) + std::log(sum));
}

template <class T>
HWY_INLINE void SoftmaxBackwardRowOf(const T* y, const T* dy, T* dx, Index count) {
  const hn::ScalableTag<T> d;
  const auto dot = hn::Set(
      d, static_cast<T>(RowSum<T>(count, [&](const auto& at) HWY_ATTR { return hn::Mul(at.Load(dy), at.Load(y)); })));
  RowEach<T>(count, [&](const auto& at) HWY_ATTR { at.Store(hn::Mul(at.Load(y), hn::Sub(at.Load(dy), dot)), dx); });
}

template <class T>
HWY_INLINE void LogSoftmaxBackwardRowOf(const T* y, const T* dy, T* dx, Index count) {
  const hn::ScalableTag<T> d;
  const auto sum = hn::Set(d, static_cast<T>(RowSum<T>(count, [&](const auto& at) HWY_ATTR { return at.Load(dy); })));
  RowEach<T>(count, [&](const auto& at)
                        HWY_ATTR { at.Store(hn::NegMulAdd(ExpNonPositive(d, at.Load(y)), sum, at.Load(dy)), dx); });
}

HWY_ATTR void SoftmaxF32(const float* x, float* y, Index n) { SoftmaxRowOf(x, y, n); }
HWY_ATTR void SoftmaxF64(const double* x, double* y, Index n) { SoftmaxRowOf(x, y, n); }
HWY_ATTR void LogSoftmaxF32(const float* x, float* y, Index n) { LogSoftmaxRowOf(x, y, n); }
HWY_ATTR void LogSoftmaxF64(const double* x, double* y, Index n) { LogSoftmaxRowOf(x, y, n); }
HWY_ATTR float LogSumExpF32(const float* x, Index n) { return LogSumExpRowOf(x, n); }
HWY_ATTR double LogSumExpF64(const double* x, Index n) { return LogSumExpRowOf(x, n); }
HWY_ATTR void SoftmaxBackwardF32(const float* y, const float* dy, float* dx, Index n) {
  SoftmaxBackwardRowOf(y, dy, dx, n);
}
HWY_ATTR void SoftmaxBackwardF64(const double* y, const double* dy, double* dx, Index n) {
  SoftmaxBackwardRowOf(y, dy, dx, n);
}
HWY_ATTR void LogSoftmaxBackwardF32(const float* y, const float* dy, float* dx, Index n) {
  LogSoftmaxBackwardRowOf(y, dy, dx, n);
}
HWY_ATTR void LogSoftmaxBackwardF64(const double* y, const double* dy, double* dx, Index n) {
  LogSoftmaxBackwardRowOf(y, dy, dx, n);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
namespace {

HWY_EXPORT(SoftmaxF32);
HWY_EXPORT(SoftmaxF64);
HWY_EXPORT(LogSoftmaxF32);
HWY_EXPORT(LogSoftmaxF64);
HWY_EXPORT(LogSumExpF32);
HWY_EXPORT(LogSumExpF64);
HWY_EXPORT(SoftmaxBackwardF32);
HWY_EXPORT(SoftmaxBackwardF64);
HWY_EXPORT(LogSoftmaxBackwardF32);
HWY_EXPORT(LogSoftmaxBackwardF64);

template <class T>
void forward(void (*kernel)(const T*, T*, Index), ConstView x, int axis, View y) {
  const Index length = y.layout->size(axis);
  for_rows<T, 1>(Region::softmax, {x}, y, axis, 1, [&](Index, const auto& in, T* out) { kernel(in[0], out, length); });
}

template <class T>
void backward(void (*kernel)(const T*, const T*, T*, Index), ConstView y, ConstView dy, int axis, View dx) {
  const Index length = dx.layout->size(axis);
  for_rows<T, 2>(Region::softmax, {y, dy}, dx, axis, 1,
                 [&](Index, const auto& in, T* out) { kernel(in[0], in[1], out, length); });
}

template <class T>
void log_sums(T (*kernel)(const T*, Index), ConstView x, int axis, View y) {
  const Index length = x.layout->size(axis);
  for_input_rows<T>(Region::softmax, x, axis, 1,
                    [&](Index row, const T* from) { y.data<T>()[row] = kernel(from, length); });
}

template <class T>
void log_sums_backward(void (*softmax_row)(const T*, T*, Index), ConstView x, ConstView y, ConstView dy, int axis,
                       View dx) {
  const RowIndex values(*y.layout, axis), cotangents(*dy.layout, axis);
  const Index length = dx.layout->size(axis);
  for_rows<T, 1>(Region::softmax, {x}, dx, axis, 1, [&](Index row, const auto& in, T* out) {
    if (y.data<T>()[values.offset(row)] == -std::numeric_limits<T>::infinity()) {
      std::fill_n(out, length, T{0});
      return;
    }
    const T factor = dy.data<T>()[cotangents.offset(row)];
    softmax_row(in[0], out, length);
    for (Index j = 0; j < length; ++j) out[j] *= factor;
  });
}

}  // namespace

void softmax(ConstView x, int axis, View y) {
  x.dtype == DType::f32 ? forward<float>(HWY_DYNAMIC_DISPATCH(SoftmaxF32), x, axis, y)
                        : forward<double>(HWY_DYNAMIC_DISPATCH(SoftmaxF64), x, axis, y);
}

void log_softmax(ConstView x, int axis, View y) {
  x.dtype == DType::f32 ? forward<float>(HWY_DYNAMIC_DISPATCH(LogSoftmaxF32), x, axis, y)
                        : forward<double>(HWY_DYNAMIC_DISPATCH(LogSoftmaxF64), x, axis, y);
}

void logsumexp(ConstView x, int axis, View y) {
  x.dtype == DType::f32 ? log_sums<float>(HWY_DYNAMIC_DISPATCH(LogSumExpF32), x, axis, y)
                        : log_sums<double>(HWY_DYNAMIC_DISPATCH(LogSumExpF64), x, axis, y);
}

void logsumexp_backward(ConstView x, ConstView y, ConstView dy, int axis, View dx) {
  x.dtype == DType::f32 ? log_sums_backward<float>(HWY_DYNAMIC_DISPATCH(SoftmaxF32), x, y, dy, axis, dx)
                        : log_sums_backward<double>(HWY_DYNAMIC_DISPATCH(SoftmaxF64), x, y, dy, axis, dx);
}

void softmax_backward(ConstView y, ConstView dy, int axis, View dx) {
  y.dtype == DType::f32 ? backward<float>(HWY_DYNAMIC_DISPATCH(SoftmaxBackwardF32), y, dy, axis, dx)
                        : backward<double>(HWY_DYNAMIC_DISPATCH(SoftmaxBackwardF64), y, dy, axis, dx);
}

void log_softmax_backward(ConstView y, ConstView dy, int axis, View dx) {
  y.dtype == DType::f32 ? backward<float>(HWY_DYNAMIC_DISPATCH(LogSoftmaxBackwardF32), y, dy, axis, dx)
                        : backward<double>(HWY_DYNAMIC_DISPATCH(LogSoftmaxBackwardF64), y, dy, axis, dx);
}

}  // namespace capstan::kernels
#endif
