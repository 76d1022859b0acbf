// Rows, partial sums of dweight and dbias in fixed blocks; the loops within a row are layer_norm_rows.cpp.
#include <capstan/ops/kernels/layer_norm.h>
#include <capstan/ops/kernels/layer_norm_rows.h>
#include <capstan/ops/kernels/rows.h>

#include <algorithm>

namespace capstan::kernels {
namespace {

template <class T>
const T* optional_data(const ConstView& view) {
  return view.layout == nullptr ? nullptr : view.data<T>();
}
template <class T>
T* optional_data(const View& view) {
  return view.layout == nullptr ? nullptr : view.data<T>();
}

/// A [C] vector with any stride, made dense; null if absent.
template <class T>
class DenseVector {
 public:
  explicit DenseVector(const ConstView& view) : copy_(strided(view) ? view.layout->size(0) : 0) {
    data_ = optional_data<T>(view);
    if (!strided(view)) return;
    for (Index j = 0; j < view.layout->size(0); ++j) copy_[j] = data_[j * view.layout->stride(0)];
    data_ = copy_.data();
  }
  const T* data() const { return data_; }

 private:
  static bool strided(const ConstView& view) { return view.layout != nullptr && !view.layout->contiguous(); }
  Scratch<T> copy_;
  const T* data_;
};

/// Row `row`, dense; through `buffer` if it is strided.
template <class T>
const T* dense_row(const ConstView& x, const RowIndex& index, Index row, T* buffer) {
  const T* from = x.data<T>() + index.offset(row);
  if (index.dense()) return from;
  for (Index j = 0; j < index.length(); ++j) buffer[j] = from[j * index.stride()];
  return buffer;
}

/// Rows whose dweight and dbias are summed up together, and how many such blocks there may be.
constexpr Index rows_of_partial = 64, most_partials = 64;

Index partial_rows(Index rows) { return std::max(rows_of_partial, (rows + most_partials - 1) / most_partials); }

template <class T>
void backward(const LayerNormRows<T>& kernels, ConstView x, ConstView weight_view, ConstView mean, ConstView rstd,
              ConstView dy, View dx, View dweight, View dbias, bool add_to_dx) {
  const int axis = x.layout->rank() - 1;
  const RowIndex x_rows(*x.layout, axis), dy_rows(*dy.layout, axis);
  const Index rows = x_rows.rows(), length = x_rows.length();
  const DenseVector<T> weight(weight_view);
  const T* const means = optional_data<T>(mean);
  T* const dx_data = optional_data<T>(dx);
  const bool wants_sums = dweight.layout != nullptr || dbias.layout != nullptr;
  const Index block = wants_sums ? partial_rows(rows) : row_grain(length, 2);
  const Index blocks = (rows + block - 1) / block;
  Scratch<double> partial(wants_sums ? blocks * 2 * length : 0);
  parallel_blocks(Region::layer_norm, rows, block, [&](Index begin, Index end) {
    double* sums = wants_sums ? partial.data() + begin / block * 2 * length : nullptr;
    if (wants_sums) std::fill_n(sums, 2 * length, 0.0);
    Scratch<T> buffer(x_rows.dense() && dy_rows.dense() ? 0 : 2 * length);
    for (Index row = begin; row < end; ++row) {
      const T* x_row = dense_row(x, x_rows, row, buffer.data());
      const T* dy_row = dense_row(dy, dy_rows, row, buffer.data() + (dy_rows.dense() ? 0 : length));
      kernels.backward(x_row, dy_row, weight.data(), means == nullptr ? T{} : means[row], rstd.data<T>()[row],
                       dx_data == nullptr ? nullptr : dx_data + row * length, add_to_dx, sums, length);
    }
  });
  if (!wants_sums) return;
  const auto total = [&](View out, Index part) {
    if (out.layout == nullptr) return;
    for (Index j = 0; j < length; ++j) {
      double sum = 0;
      for (Index b = 0; b < blocks; ++b) sum += partial[(b * 2 + part) * length + j];
      out.data<T>()[j] = static_cast<T>(sum);
    }
  };
  total(dweight, 0);
  total(dbias, 1);
}

/// What is added to x before the norm, and where the sum is kept.
struct Sum {
  ConstView r;  // absent: x alone
  View sum;
};

template <class T>
void forward(const LayerNormRows<T>& kernels, ConstView x, const Sum& add, ConstView weight_view, ConstView bias_view,
             double eps, View y, View mean, View rstd) {
  const int axis = x.layout->rank() - 1;
  const bool adds = add.r.layout != nullptr;
  const RowIndex index(*x.layout, axis), r_index(adds ? *add.r.layout : *x.layout, axis);
  const Index length = index.length();
  const DenseVector<T> weight(weight_view), bias(bias_view);
  T* const means = optional_data<T>(mean);
  T* const rstds = optional_data<T>(rstd);
  parallel_blocks(Region::layer_norm, index.rows(), row_grain(length, 2), [&](Index begin, Index end) {
    Scratch<T> buffer(index.dense() ? 0 : length), r_buffer(r_index.dense() ? 0 : length);
    for (Index row = begin; row < end; ++row) {
      const T* from = dense_row(x, index, row, buffer.data());
      const T* r = adds ? dense_row(add.r, r_index, row, r_buffer.data()) : nullptr;
      T* const sum = adds ? add.sum.data<T>() + row * length : nullptr;
      const RowStatistics statistics =
          kernels.forward(from, r, weight.data(), bias.data(), eps, sum, y.data<T>() + row * length, length);
      if (means != nullptr) means[row] = static_cast<T>(statistics.mean);
      if (rstds != nullptr) rstds[row] = static_cast<T>(statistics.rstd);
    }
  });
}

}  // namespace

void layer_norm(ConstView x, ConstView weight, ConstView bias, double eps, View y, View mean, View rstd) {
  visit_float(x.dtype, [&](auto zero) { forward(layer_norm_rows(zero), x, {}, weight, bias, eps, y, mean, rstd); });
}

void add_layer_norm(ConstView x, ConstView r, ConstView weight, ConstView bias, double eps, View sum, View y, View mean,
                    View rstd) {
  visit_float(x.dtype, [&](auto zero) {
    forward(layer_norm_rows(zero), x, {r, sum}, weight, bias, eps, y, mean, rstd);
  });
}

void layer_norm_backward(ConstView x, ConstView weight, ConstView mean, ConstView rstd, ConstView dy, View dx,
                         View dweight, View dbias, bool add_to_dx) {
  visit_float(x.dtype, [&](auto zero) {
    backward(layer_norm_rows(zero), x, weight, mean, rstd, dy, dx, dweight, dbias, add_to_dx);
  });
}

void rms_norm(ConstView x, ConstView weight, double eps, View y, View rstd) {
  visit_float(x.dtype, [&](auto zero) { forward(rms_norm_rows(zero), x, {}, weight, {}, eps, y, {}, rstd); });
}

void rms_norm_backward(ConstView x, ConstView weight, ConstView rstd, ConstView dy, View dx, View dweight,
                       bool add_to_dx) {
  visit_float(x.dtype,
              [&](auto zero) { backward(rms_norm_rows(zero), x, weight, {}, rstd, dy, dx, dweight, {}, add_to_dx); });
}

}  // namespace capstan::kernels
