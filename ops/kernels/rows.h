// Rows along one axis of a strided tensor, made dense for row kernels. Not for: users.
#pragma once

#include <capstan/autograd/view.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/scratch.h>

#include <algorithm>
#include <array>
#include <utility>

namespace capstan::kernels {

/// The rows of a view along `axis`, numbered row-major over the other axes.
class RowIndex {
 public:
  RowIndex(const Layout& layout, int axis)
      : layout_(layout), axis_(axis), length_(layout.size(axis)), stride_(layout.stride(axis)) {
    for (int i = layout.rank(); i-- > 0;) {
      if (i == axis || layout.size(i) == 1) continue;
      if (rows_ == 1) step_ = layout.stride(i);
      even_ = even_ && layout.stride(i) == step_ * rows_;
      rows_ *= layout.size(i);
    }
    dense_ = stride_ == 1 || length_ == 1;
  }

  Index rows() const { return rows_; }
  Index length() const { return length_; }
  Index stride() const { return stride_; }
  /// Each row lies densely in memory (rows may lie anywhere).
  bool dense() const { return dense_; }
  /// Rows are step() apart.
  bool even() const { return even_; }
  Index step() const { return step_; }
  /// Of the row's first element, from element (0, 0, …).
  Index offset(Index row) const {
    if (even_) return row * step_;
    Index sum = 0;
    for (int i = layout_.rank(); i-- > 0;) {
      if (i == axis_) continue;
      sum += row % layout_.size(i) * layout_.stride(i);
      row /= layout_.size(i);
    }
    return sum;
  }

 private:
  const Layout& layout_;
  int axis_;
  Index length_, stride_, rows_ = 1;
  Index step_ = 0;    // from row to row
  bool even_ = true;  // the same everywhere: no division for each row
  bool dense_ = true;
};

/// `count` dense rows of a keep tensor.
struct KeptRows {
  const bool* first;
  Index step;  // from row to row
  Index count;
};

/// Rows handled together where they are not dense: neighbours share cache lines.
inline constexpr Index rows_together = 16;

/// Rows a task, for `cost` elementary steps (some ns each) an element.
inline Index row_grain(Index length, Index cost) {
  const Index rows = std::max(Index{1}, 16384 / std::max(Index{1}, length * cost));
  return (rows + rows_together - 1) / rows_together * rows_together;
}

/// Rows first … first + count (at most `rows_together`), dense, one after the other in `to`; neighbours side by side.
template <class T>
void gather_rows_of(ConstView x, const RowIndex& index, Index first, Index count, T* to) {
  std::array<Index, rows_together> starts;
  for (Index r = 0; r < count; ++r) starts[static_cast<std::size_t>(r)] = index.offset(first + r);
  const T* from = x.template data<T>();
  for (Index j = 0; j < index.length(); ++j)
    for (Index r = 0; r < count; ++r)
      to[r * index.length() + j] = from[starts[static_cast<std::size_t>(r)] + j * index.stride()];
}

/// Calls f(row, dense row) for every row along `axis`, in parallel, where there is one result or none a row.
template <class T, class F>
void for_input_rows(Region region, ConstView x, int axis, Index cost, F f) {
  const RowIndex index(*x.layout, axis);
  const Index length = index.length();
  parallel_blocks(region, index.rows(), row_grain(length, cost), [&](Index begin, Index end) {
    if (index.dense()) {
      for (Index row = begin; row < end; ++row) f(row, x.template data<T>() + index.offset(row));
      return;
    }
    Scratch<T> buffer(rows_together * length);
    for (Index first = begin; first < end; first += rows_together) {
      const Index count = std::min(rows_together, end - first);
      gather_rows_of(x, index, first, count, buffer.data());
      for (Index r = 0; r < count; ++r) f(first + r, buffer.data() + r * length);
    }
  });
}

/// True if the rows along `axis` lie densely one after the other in y and in all inputs: nearly always.
template <std::size_t inputs>
bool rows_are_plain(const std::array<ConstView, inputs>& x, const View& y, int axis) {
  bool plain = axis == y.layout->rank() - 1 && y.layout->contiguous();
  for (const ConstView& operand : x) plain = plain && operand.layout->contiguous();
  return plain;
}

/// Calls f(row, array of input rows, output row) for every row along `axis`, in parallel, all rows dense. Inputs and y
/// have one shape.
template <class T, std::size_t inputs, class F>
void for_rows(Region region, const std::array<ConstView, inputs>& x, View y, int axis, Index cost, F f) {
  const RowIndex out(*y.layout, axis);
  const Index length = out.length();
  if (length == 0 || out.rows() == 0) return;
  if (rows_are_plain(x, y, axis)) {
    parallel_blocks(region, out.rows(), row_grain(length, cost), [&](Index begin, Index end) {
      std::array<const T*, inputs> rows;
      for (Index row = begin; row < end; ++row) {
        for (std::size_t i = 0; i < inputs; ++i) rows[i] = x[i].template data<T>() + row * length;
        f(row, rows, y.template data<T>() + row * length);
      }
    });
    return;
  }
  const auto in = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<RowIndex, inputs>{RowIndex(*x[i].layout, axis)...};
  }
  (std::make_index_sequence<inputs>());
  bool dense = out.dense();
  for (const RowIndex& index : in) dense = dense && index.dense();
  parallel_blocks(region, out.rows(), row_grain(length, cost), [&](Index begin, Index end) {
    const Index together = dense ? 1 : std::min(rows_together, end - begin);
    Scratch<T> buffer(dense ? 0 : static_cast<Index>(inputs + 1) * together * length);
    std::array<const T*, inputs> rows;
    for (Index first = begin; first < end; first += together) {
      const Index count = std::min(together, end - first);
      if (!dense)
        for (std::size_t i = 0; i < inputs; ++i)
          gather_rows_of(x[i], in[i], first, count, buffer.data() + static_cast<Index>(i) * together * length);
      T* results = buffer.data() + (dense ? 0 : static_cast<Index>(inputs) * together * length);
      for (Index r = 0; r < count; ++r) {
        for (std::size_t i = 0; i < inputs; ++i)
          rows[i] = dense ? x[i].template data<T>() + in[i].offset(first + r)
                          : buffer.data() + (static_cast<Index>(i) * together + r) * length;
        f(first + r, rows, dense ? y.template data<T>() + out.offset(first + r) : results + r * length);
      }
      if (!dense) {
        std::array<Index, rows_together> starts;
        for (Index r = 0; r < count; ++r) starts[static_cast<std::size_t>(r)] = out.offset(first + r);
        for (Index j = 0; j < length; ++j)
          for (Index r = 0; r < count; ++r)
            y.template data<T>()[starts[static_cast<std::size_t>(r)] + j * out.stride()] = results[r * length + j];
      }
    }
  });
}

}  // namespace capstan::kernels
