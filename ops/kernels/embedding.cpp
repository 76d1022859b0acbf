// Gathering rows, and adding them back: positions are first grouped by id, so that each row of the table has one owner.
#include <capstan/ops/kernels/embedding.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/rows.h>
#include <capstan/ops/kernels/scratch.h>

#include <algorithm>

namespace capstan::kernels {
namespace {

/// ids in row-major order, whatever their strides.
class DenseIds {
 public:
  explicit DenseIds(const ConstView& ids) : copy_(ids.layout->contiguous() ? 0 : ids.elements()) {
    data_ = ids.data<std::int32_t>();
    if (ids.layout->contiguous()) return;
    const Layout& layout = *ids.layout;
    for (Index i = 0; i < ids.elements(); ++i) {
      Index rest = i, offset = 0;
      for (int axis = layout.rank(); axis-- > 0;) {
        offset += rest % layout.size(axis) * layout.stride(axis);
        rest /= layout.size(axis);
      }
      copy_[i] = data_[offset];
    }
    data_ = copy_.data();
  }
  std::int32_t operator[](Index i) const { return data_[i]; }

 private:
  Scratch<std::int32_t> copy_;
  const std::int32_t* data_;
};

/// Elements that a task moves or adds.
constexpr Index task_elements = 32768;
/// Columns added up together, in f64 on the stack.
constexpr Index column_tile = 256;
/// Rows of the table are dealt to this many tasks.
constexpr Index most_row_tasks = 64;

template <class T>
void gather(ConstView table, const DenseIds& ids, Index count, View out) {
  const Index columns = table.shape().back();
  const Index row = table.layout->stride(0), column = table.layout->stride(1);
  parallel_blocks(Region::embedding, count, std::max(Index{1}, task_elements / columns), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* from = table.data<T>() + Index{ids[i]} * row;
      T* to = out.data<T>() + i * columns;
      if (column == 1) {
        std::copy_n(from, columns, to);
      } else {
        for (Index j = 0; j < columns; ++j) to[j] = from[j * column];
      }
    }
  });
}

/// Positions grouped by id, in order within each: those of id r are positions[starts[r] … starts[r + 1]).
struct Buckets {
  Scratch<Index> starts, positions;
  Buckets(const DenseIds& ids, Index count, Index rows, std::optional<std::int64_t> skip)
      : starts(rows + 1), positions(count) {
    std::fill_n(starts.data(), rows + 1, Index{0});
    const auto kept = [&](Index i) { return !skip || Index{ids[i]} != *skip; };
    for (Index i = 0; i < count; ++i)
      if (kept(i)) ++starts[Index{ids[i]} + 1];
    for (Index r = 0; r < rows; ++r) starts[r + 1] += starts[r];
    Scratch<Index> next(rows);
    std::copy_n(starts.data(), rows, next.data());
    for (Index i = 0; i < count; ++i)
      if (kept(i)) positions[next[Index{ids[i]}]++] = i;
  }
};

template <class T>
void scatter(ConstView dout, const DenseIds& ids, Index count, std::optional<std::int64_t> skip, bool accumulate,
             View dtable) {
  const Index rows = dtable.shape()[0], columns = dtable.shape()[1];
  const Buckets buckets(ids, count, rows, skip);
  const RowIndex index(*dout.layout, dout.layout->rank() - 1);
  const Index column_tasks = (columns + column_tile - 1) / column_tile;
  // Few rows a task, because ids of real text are very unevenly spread; the tasks are the same for any thread count.
  const Index row_block = (rows + most_row_tasks - 1) / most_row_tasks;
  const Index row_tasks = (rows + row_block - 1) / row_block;
  const bool worth = (count + (accumulate ? 0 : rows)) * columns > task_elements;
  parallel_blocks(Region::embedding, row_tasks * column_tasks, worth ? 1 : row_tasks * column_tasks,
                  [&](Index begin, Index end) {
                    double sums[column_tile];
                    for (Index task = begin; task < end; ++task) {
                      const Index left = task % column_tasks * column_tile;
                      const Index width = std::min(column_tile, columns - left);
                      const Index last_row = std::min(rows, (task / column_tasks + 1) * row_block);
                      for (Index r = task / column_tasks * row_block; r < last_row; ++r) {
                        if (accumulate && buckets.starts[r] == buckets.starts[r + 1]) continue;
                        T* to = dtable.data<T>() + r * columns + left;
                        for (Index j = 0; j < width; ++j) sums[j] = accumulate ? static_cast<double>(to[j]) : 0.0;
                        for (Index p = buckets.starts[r]; p < buckets.starts[r + 1]; ++p) {
                          const T* from = dout.data<T>() + index.offset(buckets.positions[p]) + left * index.stride();
                          if (index.stride() == 1) {
                            for (Index j = 0; j < width; ++j) sums[j] += static_cast<double>(from[j]);
                          } else {
                            for (Index j = 0; j < width; ++j) sums[j] += static_cast<double>(from[j * index.stride()]);
                          }
                        }
                        for (Index j = 0; j < width; ++j) to[j] = static_cast<T>(sums[j]);
                      }
                    }
                  });
}

}  // namespace

Index find_outside(ConstView ids, Index bound, std::optional<std::int64_t> ignore) {
  const DenseIds dense(ids);
  const Index count = ids.elements();
  for (Index i = 0; i < count; ++i) {
    const Index id = dense[i];
    if ((id < 0 || id >= bound) && (!ignore || id != *ignore)) return i;
  }
  return -1;
}

void gather_rows(ConstView table, ConstView ids, View out) {
  if (out.elements() == 0) return;
  const DenseIds dense(ids);
  visit_float(table.dtype, [&](auto zero) { gather<decltype(zero)>(table, dense, ids.elements(), out); });
}

void scatter_rows(ConstView dout, ConstView ids, std::optional<std::int64_t> skip, bool accumulate, View dtable) {
  if (dtable.elements() == 0) return;
  const DenseIds dense(ids);
  visit_float(dtable.dtype,
              [&](auto zero) { scatter<decltype(zero)>(dout, dense, ids.elements(), skip, accumulate, dtable); });
}

}  // namespace capstan::kernels
