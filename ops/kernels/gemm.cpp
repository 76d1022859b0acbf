// Splits products into fixed blocks, and handles the empty ones and the bias.
#include <capstan/ops/kernels/gemm_parts.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/scratch.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace capstan::kernels {
namespace {

/// Multiplications that a block should have at least: two blocks pay early, more of them later.
constexpr double worth_two = 7e5, worth_more = 3e6;
/// What a block's sides should be at least, so that what is packed is used often: the more blocks, the longer.
constexpr Index least_side(Index blocks) { return blocks == 1 ? 48 : blocks < 4 ? 192 : 256; }
constexpr Index least_depth(Index blocks) { return blocks == 1 ? 256 : 1024; }
/// Blocks enough for a few threads that do not run at the same speed.
constexpr Index many_blocks = 8;
/// Multiplications a task of a batch should have at least.
constexpr double worth_a_task = 5e5;

template <class T>
void start_c(const Product<T>& p) {
  for (Index i = 0; i < p.m; ++i) {
    T* row = p.c + i * p.c_row;
    if (p.bias == nullptr) {
      std::fill_n(row, p.n, T{0});
    } else if (!p.accumulate) {
      std::copy_n(p.bias, p.n, row);
    } else {
      for (Index j = 0; j < p.n; ++j) row[j] += p.bias[j];
    }
  }
}

template <class T>
void multiply(const Product<T>& p, PackedB<T>* packed) {
  is_small(p) ? gemm_small(p) : is_few(p) ? gemm_few(p) : gemm_large(p, packed);
}

/// One block, on this thread.
template <class T>
void one(const Product<T>& p, PackedB<T>* packed = nullptr) {
  if (p.bias == nullptr && p.k > 0) return multiply(p, packed);
  // Large products start from the bias themselves.
  if (p.k > 0 && !p.accumulate && !is_small(p) && !is_few(p)) return gemm_large(p, packed);
  Product<T> rest = p;
  if (p.bias != nullptr || !p.accumulate) {
    start_c(p);
    rest.accumulate = true;
    rest.bias = nullptr;
  }
  if (p.k > 0) multiply(rest, packed);
}

/// How one product is cut: into a grid of blocks, each multiplied by one thread. Where k is long, it is cut too: each part
/// gives a partial C, and they are added in order.
struct Grid {
  Index rows = 1, columns = 1, parts = 1;
  Index row_length = 0, column_length = 0, depth = 0;  // of a block
  Index blocks() const { return rows * columns * parts; }
};

Index pieces(Index count, Index length) { return (count + length - 1) / length; }

/// Multiplications.
template <class T>
double work_of(const Product<T>& p) {
  return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

/// Depends on the sizes only. The longest side is halved: twice packed, or added, is what belongs to the others.
template <class T>
Grid grid_of(const Product<T>& p, Index batch) {
  const double work = work_of(p);
  Grid g{.row_length = p.m, .column_length = p.n, .depth = p.k};
  if (work < 2 * worth_two && p.n <= slice_columns<T>) return g;
  g.columns = pieces(p.n, block_columns<T>(p.k));
  while (g.blocks() * batch < many_blocks) {
    const Index blocks = g.blocks();
    if (work < 2 * static_cast<double>(blocks) * (blocks == 1 ? worth_two : worth_more)) break;
    const Index rows = p.m / g.rows, columns = p.n / g.columns, depth = p.k / g.parts;
    const Index side = std::max(rows, columns);
    if (batch == 1 && depth >= std::max(4 * side, 2 * least_depth(blocks))) {
      g.parts *= 2;
    } else if (side >= 2 * least_side(blocks)) {
      (rows >= columns ? g.rows : g.columns) *= 2;
    } else {
      break;
    }
  }
  // Whole tiles.
  g.row_length = pieces(pieces(p.m, g.rows), 24) * 24;
  g.column_length = pieces(pieces(p.n, g.columns), 16) * 16;
  g.depth = pieces(p.k, g.parts);
  g.rows = pieces(p.m, g.row_length);
  g.columns = pieces(p.n, g.column_length);
  return g;
}

template <class T>
Product<T> block_of(Product<T> p, const Grid& g, Index block) {
  const Index row = block % g.rows * g.row_length, column = block / g.rows * g.column_length;
  p.a += row * p.a_row;
  p.b += column * p.b_column;
  p.c += row * p.c_row + column;
  if (p.bias != nullptr) p.bias += column;
  p.m = std::min(g.row_length, p.m - row);
  p.n = std::min(g.column_length, p.n - column);
  return p;
}

/// The part of the product along k, in C or, from the second part on, in a partial C [m, n] of its own.
template <class T>
Product<T> part_of(Product<T> p, const Grid& g, Index part, T* partials) {
  const Index q = part * g.depth;
  p.a += q * p.a_column;
  p.b += q * p.b_row;
  p.k = std::min(g.depth, p.k - q);
  if (part > 0) {
    p.c = partials + (part - 1) * p.m * p.n;
    p.c_row = p.n;
    p.accumulate = false;
    p.bias = nullptr;
  }
  return p;
}

/// Elements of B that a thread keeps packed at most.
template <class T>
constexpr Index most_kept = 4 * slice_depth<T>* slice_columns<T>;

/// All blocks. Those of one stripe (the same columns and part) share their B, which a thread keeps packed while it takes
/// such blocks. Each thread begins with rows of its own in all stripes, as in the regions before, or, where there are not
/// enough rows, with stripes of its own; then it takes what others have left.
template <class T>
void in_blocks(const Product<T>& p, const Grid& g, T* partials) {
  const Index stripes = g.columns * g.parts;
  // Who computes a block does not change it.
  const Index walks = std::min<Index>(g.blocks(), thread_count()), shares = g.rows >= walks ? walks : 1;
  const bool keeps = g.rows >= 2 * shares && g.blocks() >= 2 * walks && g.depth * g.column_length <= most_kept<T>;
  Scratch<Index> next(shares * stripes);  // rows taken
  for (Index i = 0; i < shares * stripes; ++i) next[i] = g.rows * (i / stripes) / shares;
  parallel_for(Region::gemm, walks, [&](Index walk) {
    for (Index i = 0; i < shares * stripes; ++i) {
      const Index share = (walk + i / stripes) % shares, end = g.rows * (share + 1) / shares;
      const Index stripe = (shares == 1 ? walk * stripes / walks + i : i) % stripes;
      const std::atomic_ref<Index> row(next[share * stripes + stripe]);
      PackedB<T> packed;
      for (Index r = row.fetch_add(1, std::memory_order_relaxed); r < end;
           r = row.fetch_add(1, std::memory_order_relaxed)) {
        const Product<T> part = part_of(p, g, stripe / g.columns, partials);
        one(block_of(part, g, stripe % g.columns * g.rows + r), keeps ? &packed : nullptr);
      }
    }
  });
}

template <class T>
void in_parts(const Product<T>& p, const Grid& g) {
  Scratch<T> partials((g.parts - 1) * p.m * p.n);
  in_blocks(p, g, partials.data());
  parallel_blocks(Region::gemm, p.m, std::max(Index{1}, 32768 / p.n), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      T* c = p.c + i * p.c_row;
      for (Index part = 1; part < g.parts; ++part) {
        const T* more = partials.data() + ((part - 1) * p.m + i) * p.n;
        for (Index j = 0; j < p.n; ++j) c[j] += more[j];
      }
    }
  });
}

/// A column is a row of the transposed product.
template <class T>
Product<T> transposed(Product<T> p) {
  std::swap(p.m, p.n);
  std::swap(p.a, p.b);
  std::swap(p.a_row, p.b_column);
  std::swap(p.a_column, p.b_row);
  p.c_row = p.n;
  return p;
}

}  // namespace

template <class T>
void gemm(const Product<T>& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.n == 1 && p.m > 1 && p.c_row == 1 && p.bias == nullptr) return gemm(transposed(p));
  if (std::max({p.m, p.n, p.k}) <= 32) return one(p);  // to cut 8×8×8 would take longer than to multiply it
  const Grid grid = grid_of(p, 1);
  if (grid.blocks() == 1) return one(p);
  if (grid.parts > 1) return in_parts(p, grid);
  if (work_of(p) >= 2 * worth_two) return in_blocks<T>(p, grid, nullptr);
  for (Index block = 0; block < grid.blocks(); ++block) one(block_of(p, grid, block));
}

template <class T>
void gemm(const Product<T>& product, Index batch, FunctionRef<Operands<T>(Index)> operands) {
  if (product.m == 0 || product.n == 0 || batch == 0) return;
  const Grid grid = grid_of(product, batch);
  const Index each = grid.blocks();
  const double work = work_of(product) / static_cast<double>(each);
  const Index grain = std::max(Index{1}, static_cast<Index>(worth_a_task / std::max(work, 1.0)));
  parallel_blocks(Region::gemm, batch * each, grain, [&](Index begin, Index end) {
    Product<T> item = product;
    for (Index block = begin; block < end; ++block) {
      const Operands<T> at = operands(each == 1 ? block : block / each);
      item.a = at.a;
      item.b = at.b;
      item.c = at.c;
      each == 1 ? one(item) : one(block_of(item, grid, block % each));
    }
  });
}

template void gemm(const Product<float>&);
template void gemm(const Product<double>&);
template void gemm(const Product<float>&, Index, FunctionRef<Operands<float>(Index)>);
template void gemm(const Product<double>&, Index, FunctionRef<Operands<double>(Index)>);

}  // namespace capstan::kernels
