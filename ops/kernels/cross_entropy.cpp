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

/// The class weights side by side, and Σ_c w_c q_c for a target.
template <class T>
class ClassWeights {
 public:
  ClassWeights(const ConstView& weights, Index classes, double smoothing)
      : buffer_(weights.layout == nullptr ? 0 : classes), present_(weights.layout != nullptr), smoothing_(smoothing) {
    if (!present_) return;
    for (Index c = 0; c < classes; ++c) sum_ += static_cast<double>(buffer_[c] = value_at<T>(weights, c));
    share_ = smoothing / static_cast<double>(classes);
  }
  /// Null without weights.
  const T* data() const { return present_ ? buffer_.data() : nullptr; }
  /// The factor of the target's own log-probability.
  double own(std::int64_t target) const {
    return (1 - smoothing_) * (present_ ? static_cast<double>(buffer_[target]) : 1.0);
  }
  double total(std::int64_t target) const { return present_ ? own(target) + share_ * sum_ : 1.0; }

 private:
  Scratch<T> buffer_;
  bool present_;
  double smoothing_, share_ = 0, sum_ = 0;
};

/// The loss of a row: log softmax(x)_c = x_c − max − log_sum. With smoothing 0 the other classes do not count, with 1 or
/// a weight of 0 the target does not count by itself, be they −∞.
template <class T>
T loss_of(const RowTerms& terms, double x_target, double own, double total, double share) {
  double value = total * std::log(terms.sum_exp);
  if (own != 0) value -= own * (x_target - terms.largest);
  if (share != 0) value -= share * terms.sum;
  return static_cast<T>(value);
}

}  // namespace

void cross_entropy(ConstView logits, ConstView targets, ConstView weights, std::int64_t ignore, double smoothing,
                   View loss) {
  const Index classes = logits.shape().back();
  visit_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const CrossEntropyRows<T> kernels = cross_entropy_rows(T{});
    const ClassWeights<T> weight(weights, classes, smoothing);
    T* losses = loss.data<T>();
    for_targets<T>(logits, targets, [&](Index row, const T* x, std::int64_t target) {
      losses[row] = 0;
      if (target == ignore) return;
      const RowTerms terms = kernels.terms(x, weight.data(), classes, smoothing != 0);
      losses[row] = loss_of<T>(terms, static_cast<double>(x[target]), weight.own(target), weight.total(target),
                               smoothing / static_cast<double>(classes));
    });
  });
}

namespace {

/// The gradients of rows, by `scale_of` each, over the logits or elsewhere; found(row, loss) is told each row's loss.
template <class T, class Scale, class Found>
void gradients(ConstView logits, ConstView targets, ConstView weights, std::int64_t ignore, double smoothing,
               View dlogits, Scale scale_of, Found found) {
  const Index classes = logits.shape().back();
  const double share = smoothing / static_cast<double>(classes);
  const CrossEntropyRows<T> kernels = cross_entropy_rows(T{});
  const ClassWeights<T> weight(weights, classes, smoothing);
  for_targets<T>(logits, targets, [&](Index row, const T* x, std::int64_t target) {
    T* dx = dlogits.data<T>() + row * classes;
    if (target == ignore) {
      std::fill_n(dx, classes, T{0});
      return found(row, T{0});
    }
    // As the kernel has it, or a row of one class would not cancel to 0.
    const double scale = static_cast<T>(scale_of(row)), own = weight.own(target), total = weight.total(target);
    const auto x_target = static_cast<double>(x[target]);
    const RowTerms terms = kernels.gradient(x, weight.data(), dx, classes, scale, total, share);
    dx[target] = static_cast<T>(static_cast<double>(dx[target]) - scale * own);
    found(row, loss_of<T>(terms, x_target, own, total, share));
  });
}

}  // namespace

void cross_entropy_backward(ConstView logits, ConstView targets, ConstView weights, std::int64_t ignore,
                            double smoothing, ConstView dloss, View dlogits) {
  visit_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto scale_of = [&](Index row) { return static_cast<double>(value_at<T>(dloss, row)); };
    gradients<T>(logits, targets, weights, ignore, smoothing, dlogits, scale_of, [](Index, T) {});
  });
}

void cross_entropy_in_place(View logits, ConstView targets, ConstView weights, std::int64_t ignore, double smoothing,
                            double scale, View loss) {
  visit_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    gradients<T>(
        logits, targets, weights, ignore, smoothing, logits, [=](Index) { return scale; },
        [losses = loss.data<T>()](Index row, T value) { losses[row] = value; });
  });
}

}  // namespace capstan::kernels
