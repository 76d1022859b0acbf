// Cuts a reduction into pieces whose order depends on shape and strides only.
//
// The axes are sorted into kept and reduced ones and collapsed. If the reduced elements lie densely, each output is a
// sum of runs ("by runs"); if neighbouring outputs lie densely, whole rows are added up ("by rows"). A long reduction
// with few outputs is cut into groups, each with its own partial result, joined in order.
#include <capstan/autograd/format.h>
#include <capstan/ops/kernels/cascade.h>
#include <capstan/ops/kernels/copy.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/reduce.h>
#include <capstan/ops/kernels/reduce_simd.h>
#include <capstan/ops/kernels/scratch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace capstan::kernels {
namespace {

struct Axis {
  Index size, stride;
};

struct Axes {
  Axis at[max_rank];
  int rank = 0;

  void add(Index size, Index stride) {
    if (size != 1) at[rank++] = {size, stride};
  }
  /// Longest stride first. By insertion: std::stable_sort allocates.
  void sort() {
    for (int i = 1; i < rank; ++i)
      for (int j = i; j > 0 && std::abs(at[j - 1].stride) < std::abs(at[j].stride); --j) std::swap(at[j - 1], at[j]);
  }
  void collapse() {
    int used = 0;
    for (int i = 0; i < rank; ++i) {
      if (used > 0 && at[used - 1].stride == at[i].stride * at[i].size) {
        at[used - 1] = {at[used - 1].size * at[i].size, at[i].stride};
      } else {
        at[used++] = at[i];
      }
    }
    if (used == 0) at[used++] = {1, 1};
    rank = used;
  }
  Index count() const {
    Index product = 1;
    for (int i = 0; i < rank; ++i) product *= at[i].size;
    return product;
  }
  const Axis& last() const { return at[rank - 1]; }
  /// Offset of a row-major position, over all axes or all but the last.
  Index offset(Index position, int axes) const {
    Index sum = 0;
    for (int i = axes; i-- > 0;) {
      sum += position % at[i].size * at[i].stride;
      position /= at[i].size;
    }
    return sum;
  }
};

struct Problem {
  Axes kept, reduced;
};

Problem problem_of(const Layout& x, AxisMask mask) {
  Problem problem;
  for (int axis = 0; axis < x.rank(); ++axis)
    (mask & axis_bit(axis) ? problem.reduced : problem.kept).add(x.size(axis), x.stride(axis));
  Axes& reduced = problem.reduced;
  reduced.sort();
  reduced.collapse();
  problem.kept.collapse();
  return problem;
}

// Innermost loops by element type; Sum is what they accumulate in.
template <class T>
struct Loops {
  using Sum = double;
  FoldKernels kernels = fold_kernels();
  Fold fold;
  double scale;

  Loops(Fold f, double s) : fold(f), scale(s) {}
  Sum identity() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return fold == Fold::largest ? -infinity : fold == Fold::smallest ? infinity : 0.0;
  }
  Sum join(Sum a, Sum b) const {
    if (fold == Fold::sum || fold == Fold::squares) return a + b;
    return (fold == Fold::smallest ? b < a : b > a) || std::isnan(b) ? b : a;
  }
  Sum run(const T* x, Index count) const {
    if constexpr (std::is_same_v<T, float>) return kernels.run_f32(fold, x, count, scale);
    if constexpr (std::is_same_v<T, double>) return kernels.run_f64(fold, x, count, scale);
  }
  void rows(const T* x, Index row, Index rows_count, Index width, Sum* sums) const {
    if constexpr (std::is_same_v<T, float>) kernels.rows_f32(fold, x, row, rows_count, width, scale, sums);
    if constexpr (std::is_same_v<T, double>) kernels.rows_f64(fold, x, row, rows_count, width, scale, sums);
  }
};

template <>
struct Loops<std::int32_t> {
  using Sum = std::int64_t;
  Fold fold;

  Loops(Fold f, double) : fold(f) {}
  Sum identity() const {
    using Limits = std::numeric_limits<std::int32_t>;
    return fold == Fold::largest ? Limits::min() : fold == Fold::smallest ? Limits::max() : 0;
  }
  Sum join(Sum a, Sum b) const {
    return fold == Fold::largest ? std::max(a, b) : fold == Fold::smallest ? std::min(a, b) : a + b;
  }
  Sum run(const std::int32_t* x, Index count) const {
    Sum sum = identity();
    for (Index i = 0; i < count; ++i) sum = join(sum, x[i]);
    return sum;
  }
  void rows(const std::int32_t* x, Index row, Index rows_count, Index width, Sum* sums) const {
    for (Index r = 0; r < rows_count; ++r)
      for (Index j = 0; j < width; ++j) sums[j] = join(sums[j], x[r * row + j]);
  }
};

constexpr Index dense_piece = 4096, strided_piece = 512;
constexpr Index row_width = 512, row_block = 128;
/// Elements a group (and a task) should have, and how many groups there may be.
constexpr Index group_elements = 65536, most_groups = 256, task_elements = 32768;
/// With this many independent pieces of output, long reductions are not cut.
constexpr Index enough_outputs = 16;

/// Units (pieces or rows) of a group, for `units` of `elements` each.
Index group_size(Index outputs, Index units, Index elements) {
  if (outputs >= enough_outputs) return units;
  return std::max(std::max(Index{1}, group_elements / std::max(Index{1}, elements)),
                  (units + most_groups - 1) / most_groups);
}

/// Elements from `x`, `stride` apart, made dense.
template <class T>
const T* gathered(const T* x, Index stride, Index count, T* buffer) {
  if (stride == 1) return x;
  for (Index i = 0; i < count; ++i) buffer[i] = x[i * stride];
  return buffer;
}

/// store(output, sum) for each output.
template <class T, class Store>
void by_runs(const Problem& problem, const T* x, const Loops<T>& loops, Store store) {
  using Sum = typename Loops<T>::Sum;
  const Axes& reduced = problem.reduced;
  const Index outputs = problem.kept.count(), inner = reduced.last().size, stride = reduced.last().stride;
  const Index piece = std::min(inner, stride == 1 ? dense_piece : strided_piece);
  const Index pieces_a_run = (inner + piece - 1) / piece;
  const Index pieces = reduced.count() / inner * pieces_a_run;
  if (pieces == 1) {
    // Many short runs: nothing to join, and divisions would cost more than the sums.
    const bool even = problem.kept.rank == 1;
    parallel_blocks(Region::reduce, outputs, std::max(Index{1}, task_elements / piece), [&](Index begin, Index end) {
      T buffer[strided_piece];
      for (Index output = begin; output < end; ++output) {
        const Index place = even ? output * problem.kept.last().stride : problem.kept.offset(output, problem.kept.rank);
        store(output, loops.run(gathered(x + place, stride, inner, buffer), inner));
      }
    });
    return;
  }
  const Index group = group_size(outputs, pieces, piece);
  const Index groups = (pieces + group - 1) / group;
  Scratch<Sum> partial(groups > 1 ? outputs * groups : 0);

  const Index grain = std::max(Index{1}, task_elements / (group * piece));
  parallel_blocks(Region::reduce, outputs * groups, grain, [&](Index begin, Index end) {
    T buffer[strided_piece];
    for (Index task = begin; task < end; ++task) {
      const Index output = task / groups;
      const T* base = x + problem.kept.offset(output, problem.kept.rank);
      const Index first = task % groups * group, last = std::min(pieces, first + group);
      const auto piece_sum = [&](Index p) {
        const Index start = p % pieces_a_run * piece;
        const Index count = std::min(piece, inner - start);
        const T* from = base + reduced.offset(p / pieces_a_run, reduced.rank - 1) + start * stride;
        return loops.run(gathered(from, stride, count, buffer), count);
      };
      Cascade cascade(loops);
      for (Index p = first; p < last; ++p) cascade.add(piece_sum(p));
      const Sum sum = cascade.total();
      groups > 1 ? static_cast<void>(partial[task] = sum) : store(output, sum);
    }
  });
  if (groups == 1) return;
  for (Index output = 0; output < outputs; ++output) {
    Cascade cascade(loops);
    for (Index g = 0; g < groups; ++g) cascade.add(partial[output * groups + g]);
    store(output, cascade.total());
  }
}

template <class T, class Store>
void by_rows(const Problem& problem, const T* x, const Loops<T>& loops, Store store) {
  using Sum = typename Loops<T>::Sum;
  const Axes &kept = problem.kept, &reduced = problem.reduced;
  const Index columns = kept.last().size, stride = kept.last().stride;
  const Index tiles_a_line = (columns + row_width - 1) / row_width;
  const Index lines = kept.count() / columns, tiles = lines * tiles_a_line;
  const Index width_most = std::min(columns, row_width);
  const Index inner = reduced.last().size, inner_stride = reduced.last().stride;
  const Index rows = reduced.count();
  const Index group = group_size(tiles, rows, width_most);
  const Index groups = (rows + group - 1) / group;
  Scratch<Sum> partial(groups > 1 ? tiles * groups * width_most : 0);

  const auto tile_begin = [&](Index tile) { return tile % tiles_a_line * row_width; };
  const auto tile_width = [&](Index tile) { return std::min(row_width, columns - tile_begin(tile)); };
  const Index grain = std::max(Index{1}, task_elements / (group * width_most));
  parallel_blocks(Region::reduce, tiles * groups, grain, [&](Index begin, Index end) {
    T buffer[row_width];
    alignas(64) Sum block[row_width];
    Scratch<Sum> levels(RowCascade<Loops<T>>::levels((group + row_block - 1) / row_block) * width_most);
    for (Index task = begin; task < end; ++task) {
      const Index tile = task / groups, width = tile_width(tile);
      const T* base = x + kept.offset(tile / tiles_a_line, kept.rank - 1) + tile_begin(tile) * stride;
      RowCascade cascade(loops, width, levels.data());
      const Index last = std::min(rows, (task % groups + 1) * group);
      for (Index row = task % groups * group; row < last;) {
        std::fill_n(block, width, loops.identity());
        for (const Index block_end = std::min(last, row + row_block); row < block_end;) {
          // Not beyond the innermost reduced axis.
          const Index count = std::min(block_end - row, inner - row % inner);
          const T* from = base + reduced.offset(row / inner, reduced.rank - 1) + row % inner * inner_stride;
          if (stride == 1) {
            loops.rows(from, inner_stride, count, width, block);
          } else {
            for (Index r = 0; r < count; ++r)
              loops.rows(gathered(from + r * inner_stride, stride, width, buffer), 0, 1, width, block);
          }
          row += count;
        }
        cascade.add(block);
      }
      const Sum* sums = cascade.total(block);
      if (groups > 1) {
        std::copy_n(sums, width, partial.data() + task * width_most);
      } else {
        for (Index j = 0; j < width; ++j) store(tile / tiles_a_line * columns + tile_begin(tile) + j, sums[j]);
      }
    }
  });
  if (groups == 1) return;
  for (Index tile = 0; tile < tiles; ++tile)
    for (Index j = 0; j < tile_width(tile); ++j) {
      Cascade cascade(loops);
      for (Index g = 0; g < groups; ++g) cascade.add(partial[(tile * groups + g) * width_most + j]);
      store(tile / tiles_a_line * columns + tile_begin(tile) + j, cascade.total());
    }
}

template <class T, class Store>
void reduce(const ConstView& x, AxisMask axes, const Loops<T>& loops, Store store) {
  const Problem problem = problem_of(*x.layout, axes);
  const Index outputs = problem.kept.count();
  if (outputs == 0) return;
  if (problem.reduced.count() == 0) {
    for (Index output = 0; output < outputs; ++output) store(output, loops.identity());
    return;
  }
  const Axis kept = problem.kept.last(), reduced = problem.reduced.last();
  const bool rows =
      kept.size >= 8 && reduced.stride != 1 && std::abs(kept.stride) < std::max(Index{2}, std::abs(reduced.stride));
  rows ? by_rows(problem, x.data<T>(), loops, store) : by_runs(problem, x.data<T>(), loops, store);
}

void reduce_floats(ConstView x, AxisMask axes, Fold fold, double scale, View y) {
  visit_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* out = y.data<T>();
    reduce<T>(x, axes, Loops<T>(fold, 1.0), [&](Index i, double sum) { out[i] = static_cast<T>(sum * scale); });
  });
}

void reduce_integers(ConstView x, AxisMask axes, Fold fold, View y) {
  std::int32_t* out = y.data<std::int32_t>();
  reduce<std::int32_t>(x, axes, Loops<std::int32_t>(fold, 1.0), [&](Index i, std::int64_t sum) {
    out[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(sum)));
  });
}

double whole(ConstView x, Fold fold, double scale) {
  double result = 0;
  visit_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce<T>(x, all_axes(x.layout->rank()), Loops<T>(fold, scale), [&](Index, double sum) { result = sum; });
  });
  return result;
}

}  // namespace

void sum(ConstView x, AxisMask axes, View y) {
  is_float(x.dtype) ? reduce_floats(x, axes, Fold::sum, 1.0, y) : reduce_integers(x, axes, Fold::sum, y);
}

void scaled_sum(ConstView x, AxisMask axes, double scale, View y) { reduce_floats(x, axes, Fold::sum, scale, y); }

void max(ConstView x, AxisMask axes, View y) {
  is_float(x.dtype) ? reduce_floats(x, axes, Fold::largest, 1.0, y) : reduce_integers(x, axes, Fold::largest, y);
}

void min(ConstView x, AxisMask axes, View y) {
  is_float(x.dtype) ? reduce_floats(x, axes, Fold::smallest, 1.0, y) : reduce_integers(x, axes, Fold::smallest, y);
}

void sum_to(ConstView x, View y) {
  const int missing = x.layout->rank() - y.layout->rank();
  AxisMask axes = 0;
  for (int axis = 0; axis < x.layout->rank(); ++axis)
    if (axis < missing || (y.layout->size(axis - missing) == 1 && x.layout->size(axis) != 1)) axes |= axis_bit(axis);
  if (axes != 0) return sum(x, axes, y);
  copy(x, y);
}

double norm(ConstView x) {
  const double plain = whole(x, Fold::squares, 1.0);
  // Squares of f64 may leave its range; in between nothing was lost.
  if (std::isnan(plain) || (plain > 1e-280 && plain < 1e300)) return std::sqrt(plain);
  const double largest = whole(x, Fold::magnitude, 1.0);
  if (largest == 0 || !std::isfinite(largest)) return largest;
  // A power of two, so that scaling rounds nothing; 2^1000 is enough for the smallest subnormal.
  const int exponent = std::max(std::ilogb(largest), -1000);
  return std::ldexp(std::sqrt(whole(x, Fold::squares, std::ldexp(1.0, -exponent))), exponent);
}

}  // namespace capstan::kernels
