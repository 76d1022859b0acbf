// Splits products into fixed blocks, and handles the empty ones and the bias.
#include <capstan/ops/kernels/gemm_parts.h>
#include <capstan/ops/kernels/parallel.h>

#include <algorithm>

namespace capstan::kernels {
namespace {

// oneDNN repacks B for every block of rows: blocks of 384 cost up to 7 %, of 128 up to 15 %. In between, so that the
// sizes of small models give work to more than two threads.
constexpr Index block_length = 256;
/// Below this many multiplications (some 20 µs of f32) a product is not split.
constexpr double worth_splitting = 1.5e6;
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

/// One block, on this thread.
template <class T>
void one(Product<T> p) {
  if (p.bias != nullptr || (p.k == 0 && !p.accumulate)) {
    start_c(p);
    p.accumulate = true;
    p.bias = nullptr;
  }
  if (p.k == 0) return;
  is_small(p) ? gemm_small(p) : gemm_large(p);
}

/// How one product is cut: along m or n, into `count` blocks of `length`.
struct Split {
  bool rows = true;
  Index count = 1, length = 0;
};

/// Depends on the sizes only. An even count, so that two threads end together.
Split split(Index m, Index n, Index k) {
  Split s;
  s.rows = m >= n;
  const Index extent = std::max(m, n);
  s.length = extent;
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (work < worth_splitting || extent < 32) return s;
  Index count = (extent + block_length - 1) / block_length;
  count += count % 2;
  // Whole tiles of the micro-kernels (48 = 3 vectors of 16).
  const Index unit = extent >= 96 * count ? 48 : 16;
  s.length = ((extent + count - 1) / count + unit - 1) / unit * unit;
  s.count = (extent + s.length - 1) / s.length;
  return s;
}

template <class T>
Product<T> block_of(Product<T> p, const Split& s, Index block) {
  const Index begin = block * s.length;
  if (s.rows) {
    p.a += begin * p.a_row;
    p.c += begin * p.c_row;
    p.m = std::min(s.length, p.m - begin);
  } else {
    p.b += begin * p.b_column;
    p.c += begin;
    if (p.bias != nullptr) p.bias += begin;
    p.n = std::min(s.length, p.n - begin);
  }
  return p;
}

}  // namespace

template <class T>
void gemm(const Product<T>& product) {
  if (product.m == 0 || product.n == 0) return;
  const Split s = split(product.m, product.n, product.k);
  if (s.count == 1) return one(product);
  parallel_for(Region::gemm, s.count, [&](Index block) { one(block_of(product, s, block)); });
}

template <class T>
void gemm(const Product<T>& product, Index batch, FunctionRef<Operands<T>(Index)> operands) {
  if (product.m == 0 || product.n == 0 || batch == 0) return;
  const Split s = split(product.m, product.n, product.k);
  const double work = static_cast<double>(product.m) * static_cast<double>(product.n) *
                      static_cast<double>(std::max(product.k, Index{1}));
  const Index grain = s.count > 1 ? 1 : std::max(Index{1}, static_cast<Index>(worth_a_task / work));
  parallel_blocks(Region::gemm, batch * s.count, grain, [&](Index begin, Index end) {
    for (Index task = begin; task < end; ++task) {
      Product<T> item = product;
      const Operands<T> at = operands(task / s.count);
      item.a = at.a;
      item.b = at.b;
      item.c = at.c;
      one(block_of(item, s, task % s.count));
    }
  });
}

template void gemm(const Product<float>&);
template void gemm(const Product<double>&);
template void gemm(const Product<float>&, Index, FunctionRef<Operands<float>(Index)>);
template void gemm(const Product<double>&, Index, FunctionRef<Operands<double>(Index)>);

}  // namespace capstan::kernels
