// Softmax, log-softmax and log-sum-exp, forward and backward: row loops on SIMD.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/softmax.cpp>
#include <capstan/ops/kernels/rows.h>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/softmax.h>

#include <algorithm>
#include <limits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/math-inl.h>
#include <capstan/ops/kernels/row_loops-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

/// The elements of a row that count: all, or those that are kept.
struct Everything {
  template <class At, class V>
  HWY_INLINE V Select(const At&, V v, V) const {
    return v;
  }
  bool None(Index) const { return false; }
  template <class T>
  HWY_INLINE hn::Mask<hn::ScalableTag<T>> Of(const Part<T>& row) const {
    return row.Mask();
  }
};
struct Kept {
  const bool* keep;
  template <class At, class V>
  HWY_INLINE V Select(const At& at, V v, V otherwise) const {
    return hn::IfThenElse(at.Load(keep), v, otherwise);
  }
  bool None(Index count) const { return std::find(keep, keep + count, true) == keep + count; }
  template <class T>
  HWY_INLINE hn::Mask<hn::ScalableTag<T>> Of(const Part<T>& row) const {
    return row.Load(keep);
  }
};

/// A row of at most a vector: everything stays in registers.
template <class T, class Counts>
HWY_INLINE void ShortSoftmaxRow(const T* x, T* y, Index count, const Counts& counts) {
  const hn::ScalableTag<T> d;
  const Part<T> row{0, count};
  const auto counted = counts.Of(row);
  const auto scores = hn::IfThenElse(counted, row.Load(x), hn::Set(d, -std::numeric_limits<T>::infinity()));
  const T top = LargestLane<T>(scores);
  if (top == -std::numeric_limits<T>::infinity() && counts.None(count)) return row.Store(hn::Zero(d), y);
  const auto weights = hn::IfThenElseZero(counted, ExpNonPositive(d, hn::Sub(scores, hn::Set(d, top))));
  const auto inverse = hn::Div(hn::Set(d, T{1}), hn::SumOfLanes(d, weights));
  row.Store(hn::IfThenElseZero(counted, hn::Mul(weights, inverse)), y);
}

template <class T, class Counts>
HWY_INLINE void SoftmaxRowOf(const T* x, T* y, Index count, const Counts& counts) {
  const hn::ScalableTag<T> d;
  if (count <= static_cast<Index>(hn::MaxLanes(d))) return ShortSoftmaxRow(x, y, count, counts);
  const auto zero = hn::Zero(d), lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  const auto scores = [&](const auto& at) HWY_ATTR { return counts.Select(at, at.Load(x), lowest); };
  const T top = RowMax<T>(count, scores);
  if (top == -std::numeric_limits<T>::infinity() && counts.None(count)) {
    std::fill_n(y, count, T{0});
    return;
  }
  const auto largest = hn::Set(d, top);
  const auto weights = [&](const auto& at) HWY_ATTR {
    return counts.Select(at, ExpNonPositive(d, hn::Sub(at.Load(x), largest)), zero);
  };
  const double sum = RowSum<T>(count, [&](const auto& at) HWY_ATTR {
    const auto e = weights(at);
    at.Store(e, y);
    return e;
  });
  const auto inverse = hn::Set(d, static_cast<T>(1.0 / sum));
  // Selected once more: the sum may be NaN.
  RowEach<T>(count,
             [&](const auto& at) HWY_ATTR { at.Store(counts.Select(at, hn::Mul(at.Load(y), inverse), zero), y); });
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

template <class T, class Counts>
HWY_INLINE void SoftmaxBackwardRowOf(const T* y, const T* dy, T* dx, Index count, const Counts& counts) {
  const hn::ScalableTag<T> d;
  if (count <= static_cast<Index>(hn::MaxLanes(d))) {
    const Part<T> row{0, count};
    const auto counted = counts.Of(row);
    const auto weights = row.Load(y), up = row.Load(dy);
    const auto dot = hn::SumOfLanes(d, hn::IfThenElseZero(counted, hn::Mul(up, weights)));
    return row.Store(hn::IfThenElseZero(counted, hn::Mul(weights, hn::Sub(up, dot))), dx);
  }
  const auto zero = hn::Zero(d);
  const double sum = RowSum<T>(
      count, [&](const auto& at) HWY_ATTR { return counts.Select(at, hn::Mul(at.Load(dy), at.Load(y)), zero); });
  const auto dot = hn::Set(d, static_cast<T>(sum));
  RowEach<T>(count, [&](const auto& at) HWY_ATTR {
    at.Store(counts.Select(at, hn::Mul(at.Load(y), hn::Sub(at.Load(dy), dot)), zero), dx);
  });
}

template <class T>
HWY_INLINE void LogSoftmaxBackwardRowOf(const T* y, const T* dy, T* dx, Index count) {
  const hn::ScalableTag<T> d;
  const auto sum = hn::Set(d, static_cast<T>(RowSum<T>(count, [&](const auto& at) HWY_ATTR { return at.Load(dy); })));
  RowEach<T>(count, [&](const auto& at)
                        HWY_ATTR { at.Store(hn::NegMulAdd(ExpNonPositive(d, at.Load(y)), sum, at.Load(dy)), dx); });
}

HWY_ATTR void SoftmaxF32(const float* x, float* y, Index n) { SoftmaxRowOf(x, y, n, Everything{}); }
HWY_ATTR void SoftmaxF64(const double* x, double* y, Index n) { SoftmaxRowOf(x, y, n, Everything{}); }
HWY_ATTR void MaskedSoftmaxF32(const float* x, KeptRows keep, float* y, Index n) {
  for (Index i = 0; i < keep.count; ++i) SoftmaxRowOf(x + i * n, y + i * n, n, Kept{keep.first + i * keep.step});
}
HWY_ATTR void MaskedSoftmaxF64(const double* x, KeptRows keep, double* y, Index n) {
  for (Index i = 0; i < keep.count; ++i) SoftmaxRowOf(x + i * n, y + i * n, n, Kept{keep.first + i * keep.step});
}
HWY_ATTR void LogSoftmaxF32(const float* x, float* y, Index n) { LogSoftmaxRowOf(x, y, n); }
HWY_ATTR void LogSoftmaxF64(const double* x, double* y, Index n) { LogSoftmaxRowOf(x, y, n); }
HWY_ATTR float LogSumExpF32(const float* x, Index n) { return LogSumExpRowOf(x, n); }
HWY_ATTR double LogSumExpF64(const double* x, Index n) { return LogSumExpRowOf(x, n); }
HWY_ATTR void SoftmaxBackwardF32(const float* y, const float* dy, float* dx, Index n) {
  SoftmaxBackwardRowOf(y, dy, dx, n, Everything{});
}
HWY_ATTR void SoftmaxBackwardF64(const double* y, const double* dy, double* dx, Index n) {
  SoftmaxBackwardRowOf(y, dy, dx, n, Everything{});
}
HWY_ATTR void MaskedSoftmaxBackwardF32(const float* y, KeptRows keep, const float* dy, float* dx, Index n) {
  for (Index i = 0; i < keep.count; ++i)
    SoftmaxBackwardRowOf(y + i * n, dy + i * n, dx + i * n, n, Kept{keep.first + i * keep.step});
}
HWY_ATTR void MaskedSoftmaxBackwardF64(const double* y, KeptRows keep, const double* dy, double* dx, Index n) {
  for (Index i = 0; i < keep.count; ++i)
    SoftmaxBackwardRowOf(y + i * n, dy + i * n, dx + i * n, n, Kept{keep.first + i * keep.step});
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
HWY_EXPORT(MaskedSoftmaxF32);
HWY_EXPORT(MaskedSoftmaxF64);
HWY_EXPORT(LogSoftmaxF32);
HWY_EXPORT(LogSoftmaxF64);
HWY_EXPORT(LogSumExpF32);
HWY_EXPORT(LogSumExpF64);
HWY_EXPORT(SoftmaxBackwardF32);
HWY_EXPORT(SoftmaxBackwardF64);
HWY_EXPORT(MaskedSoftmaxBackwardF32);
HWY_EXPORT(MaskedSoftmaxBackwardF64);
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

/// Rows of a keep tensor, which may be stretched or strided.
class KeepTensor {
 public:
  KeepTensor(ConstView keep, int axis) : keep_(keep.data<bool>()), index_(*keep.layout, axis) {}
  bool even() const { return index_.dense() && index_.even(); }
  KeptRows rows(Index begin, Index end) const { return {keep_ + begin * index_.step(), index_.step(), end - begin}; }
  /// f(the row, dense)
  template <class F>
  void with(Index row, F f) const {
    const bool* from = keep_ + index_.offset(row);
    if (index_.dense()) return f(KeptRows{from, 0, 1});
    Scratch<bool> dense(index_.length());
    for (Index j = 0; j < index_.length(); ++j) dense[j] = from[j * index_.stride()];
    f(KeptRows{dense.data(), 0, 1});
  }

 private:
  const bool* keep_;
  RowIndex index_;
};

/// kernel(array of first input rows, rows of keep, first output row) for all rows, many at a time if they lie one after the other.
template <class T, std::size_t inputs, class F>
void for_masked_rows(const std::array<ConstView, inputs>& x, ConstView keep, int axis, View y, F kernel) {
  const Index length = y.layout->size(axis);
  const KeepTensor kept(keep, axis);
  if (!kept.even() || !rows_are_plain(x, y, axis))
    return for_rows<T, inputs>(Region::softmax, x, y, axis, 1, [&](Index row, const auto& in, T* out) {
      kept.with(row, [&](KeptRows k) { kernel(in, k, out); });
    });
  if (length == 0) return;
  parallel_blocks(Region::softmax, y.elements() / length, row_grain(length, 1), [&](Index begin, Index end) {
    std::array<const T*, inputs> in;
    for (std::size_t i = 0; i < inputs; ++i) in[i] = x[i].template data<T>() + begin * length;
    kernel(in, kept.rows(begin, end), y.template data<T>() + begin * length);
  });
}

template <class T>
void masked_forward(void (*kernel)(const T*, KeptRows, T*, Index), ConstView x, ConstView keep, int axis, View y) {
  const Index length = y.layout->size(axis);
  for_masked_rows<T, 1>({x}, keep, axis, y,
                        [&](const auto& in, KeptRows kept, T* out) { kernel(in[0], kept, out, length); });
}

template <class T>
void masked_backward(void (*kernel)(const T*, KeptRows, const T*, T*, Index), ConstView y, ConstView keep, ConstView dy,
                     int axis, View dx) {
  const Index length = dx.layout->size(axis);
  for_masked_rows<T, 2>({y, dy}, keep, axis, dx,
                        [&](const auto& in, KeptRows kept, T* out) { kernel(in[0], kept, in[1], out, length); });
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

void masked_softmax(ConstView x, ConstView keep, int axis, View y) {
  x.dtype == DType::f32 ? masked_forward<float>(HWY_DYNAMIC_DISPATCH(MaskedSoftmaxF32), x, keep, axis, y)
                        : masked_forward<double>(HWY_DYNAMIC_DISPATCH(MaskedSoftmaxF64), x, keep, axis, y);
}

void masked_softmax_backward(ConstView y, ConstView keep, ConstView dy, int axis, View dx) {
  y.dtype == DType::f32
      ? masked_backward<float>(HWY_DYNAMIC_DISPATCH(MaskedSoftmaxBackwardF32), y, keep, dy, axis, dx)
      : masked_backward<double>(HWY_DYNAMIC_DISPATCH(MaskedSoftmaxBackwardF64), y, keep, dy, axis, dx);
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
