#include <capstan/ops/kernels/gather.h>
#include <capstan/ops/kernels/rows.h>
#include <capstan/ops/kernels/scratch.h>

#include <algorithm>
#include <array>

namespace capstan::kernels {

// Lines along the last axis: y[j] = x[start + j · step + id(j) · stride], where `step` is 0 if the ids choose along
// that very axis.
void gather(ConstView x, int axis, ConstView ids, View y) {
  const int last = y.shape().rank() - 1;
  const Index stride = x.layout->stride(axis), count = y.shape()[last], id_step = ids.layout->stride(last);
  if (y.elements() == 0) return;
  Index strides[max_rank];
  std::copy_n(x.layout->strides(), last + 1, strides);
  strides[axis] = 0;
  const Layout rest(y.shape(), strides, 0);
  const RowIndex starts(rest, last), id_lines(*ids.layout, last);
  visit_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_blocks(Region::embedding, starts.rows(), row_grain(count, 2), [&](Index begin, Index end) {
      for (Index line = begin; line < end; ++line) {
        const T* from = x.data<T>() + starts.offset(line);
        const std::int32_t* id = ids.data<std::int32_t>() + id_lines.offset(line);
        T* to = y.data<T>() + line * count;
        for (Index j = 0; j < count; ++j) to[j] = from[j * starts.stride() + Index{id[j * id_step]} * stride];
      }
    });
  });
}

// Each row along the axis has one owner, which adds in order. Neighbouring rows lie side by side if the axis is not the
// last: they are walked together.
void scatter_add(ConstView src, int axis, ConstView ids, View y) {
  if (y.elements() == 0) return;
  const RowIndex sources(*src.layout, axis), id_rows(*ids.layout, axis), targets(*y.layout, axis);
  const Index count = sources.length(), size = targets.length();
  const Index together = axis == y.shape().rank() - 1 ? 1 : rows_together;
  visit_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_blocks(
        Region::embedding, targets.rows(), row_grain(std::max(count, size), 2), [&](Index begin, Index end) {
          Scratch<double> sums(together * size);
          std::array<Index, rows_together> source, id, target;
          for (Index first = begin; first < end; first += together) {
            const auto rows = static_cast<std::size_t>(std::min(together, end - first));
            for (std::size_t r = 0; r < rows; ++r) {
              const Index row = first + static_cast<Index>(r);
              source[r] = sources.offset(row);
              id[r] = id_rows.offset(row);
              target[r] = targets.offset(row);
            }
            std::fill_n(sums.data(), together * size, 0.0);
            for (Index m = 0; m < count; ++m)
              for (std::size_t r = 0; r < rows; ++r) {
                const Index n = ids.data<std::int32_t>()[id[r] + m * id_rows.stride()];
                sums[static_cast<Index>(r) * size + n] +=
                    static_cast<double>(src.data<T>()[source[r] + m * sources.stride()]);
              }
            for (Index n = 0; n < size; ++n)
              for (std::size_t r = 0; r < rows; ++r)
                y.data<T>()[target[r] + n * targets.stride()] = static_cast<T>(sums[static_cast<Index>(r) * size + n]);
          }
        });
  });
}

}  // namespace capstan::kernels
