// Losses and gradients row by row; the loops within a row are cross_entropy_rows.cpp.
#include <capstan/ops/kernels/cross_entropy.h>
#include <capstan/ops/kernels/cross_entropy_rows.h>
#include <capstan/ops/kernels/rows.h>

#include <algorithm>
#include <cmath>

namespace capstan::kernels {
namespace {

/// Offset of element `row`, row-major, of a view of any strides.
Index at(const Layout& layout, Index row) {
  Index sum = layout.offset();
  for (int axis = layout.rank(); axis-- > 0;) {
    sum += row % layout.size(axis) * layout.stride(axis);
    row /= layout.size(axis);
  }
  return sum;
}

template <class T>
T value_at(const ConstView& view, Index row) {
  return static_cast<const T*>(view.bytes)[at(*view.layout, row)];
}

/// Calls f(row, dense logits, target) for every row, in parallel.
template <class T, class F>
void for_targets(ConstView logits, ConstView targets, F f) {
  const RowIndex index(*logits.layout, logits.layout->rank() - 1);
  const Index length = index.length();
  parallel_blocks(Region::cross_entropy, index.rows(), row_grain(length, 1), [&](Index begin, Index end) {
    Scratch<T> buffer(index.dense() ? 0 : length);
    for (Index row = begin; row < end; ++row) {
      const T* x = logits.data<T>() + index.offset(row);
      if (!index.dense()) {
        for (Index j = 0; j < length; ++j) buffer[j] = x[j * index.stride()];
        x = buffer.data();
      }
      f(row, x, std::int64_t{value_at<std::int32_t>(targets, row)});
    }
  });
}

}  // namespace

void cross_entropy(ConstView logits, ConstView targets, std::int64_t ignore, double smoothing, View loss) {
  const Index classes = logits.shape().back();
  visit_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const CrossEntropyRows<T> kernels = cross_entropy_rows(T{});
    T* losses = loss.data<T>();
    for_targets<T>(logits, targets, [&](Index row, const T* x, std::int64_t target) {
      losses[row] = 0;
      if (target == ignore) return;
      const RowTerms row_terms = kernels.terms(x, classes, smoothing != 0);
      const double log_sum = std::log(row_terms.sum_exp);
      // log softmax(x)_c = x_c − max − log_sum; with smoothing 0 the other classes do not count, with 1 the target
      // does not count by itself, be they −∞.
      double value = log_sum;
      if (smoothing != 1) value -= (1 - smoothing) * (static_cast<double>(x[target]) - row_terms.largest);
      if (smoothing != 0) value -= smoothing / static_cast<double>(classes) * row_terms.sum;
      losses[row] = static_cast<T>(value);
    });
  });
}

void cross_entropy_backward(ConstView logits, ConstView targets, std::int64_t ignore, double smoothing, ConstView dloss,
                            View dlogits) {
  const Index classes = logits.shape().back();
  visit_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const CrossEntropyRows<T> kernels = cross_entropy_rows(T{});
    for_targets<T>(logits, targets, [&](Index row, const T* x, std::int64_t target) {
      T* dx = dlogits.data<T>() + row * classes;
      if (target == ignore) {
        std::fill_n(dx, classes, T{0});
        return;
      }
      const double scale = static_cast<double>(value_at<T>(dloss, row));
      kernels.gradient(x, dx, classes, scale, smoothing / static_cast<double>(classes));
      dx[target] = static_cast<T>(static_cast<double>(dx[target]) - scale * (1 - smoothing));
    });
  });
}

}  // namespace capstan::kernels
