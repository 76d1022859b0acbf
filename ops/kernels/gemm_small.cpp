// Small products in place, without packing: vectors along the columns of C, some rows at a time. A call costs some ten
// nanoseconds.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/gemm_small.cpp>
#include <capstan/ops/kernels/gemm_parts.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/partial-inl.h>
#include <capstan/ops/kernels/transpose-inl.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// `rows` rows (at most 8) and `vectors` vectors of C; the last vector is cut to `last` lanes if `cut`.
template <Index rows, Index vectors, bool cut, class T>
HWY_INLINE void SmallTile(const Product<T>& p, Index i, Index j, Index last) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(d));
  const T* a = p.a + i * p.a_row;
  const T* b = p.b + j;
  V sum[rows][vectors];
  for (Index r = 0; r < rows; ++r)
    for (Index v = 0; v < vectors; ++v) {
      const T* c = p.c + (i + r) * p.c_row + j + v * lanes;
      const bool partial = cut && v == vectors - 1;
      sum[r][v] = !p.accumulate ? hn::Zero(d) : partial ? LoadPart(d, c, last) : hn::LoadU(d, c);
    }
  for (Index k = 0; k < p.k; ++k) {
    V row[vectors];
    for (Index v = 0; v < vectors; ++v)
      row[v] = cut && v == vectors - 1 ? LoadPart(d, b + v * lanes, last) : hn::LoadU(d, b + v * lanes);
    for (Index r = 0; r < rows; ++r) {
      const V factor = hn::Set(d, a[r * p.a_row]);
      for (Index v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(factor, row[v], sum[r][v]);
    }
    a += p.a_column;
    b += p.b_row;
  }
  for (Index r = 0; r < rows; ++r)
    for (Index v = 0; v < vectors; ++v) {
      T* c = p.c + (i + r) * p.c_row + j + v * lanes;
      if (cut && v == vectors - 1) {
        StorePart(sum[r][v], d, c, last);
      } else {
        hn::StoreU(sum[r][v], d, c);
      }
    }
}

template <Index vectors, bool cut, class T>
HWY_INLINE void SmallColumns(const Product<T>& p, Index j, Index last) {
  Index i = 0;
  // One vector wide, four sums would wait for each other.
  if constexpr (vectors == 1)
    for (; i + 8 <= p.m; i += 8) SmallTile<8, vectors, cut>(p, i, j, last);
  for (; i + 4 <= p.m; i += 4) SmallTile<4, vectors, cut>(p, i, j, last);
  for (; i < p.m; ++i) SmallTile<1, vectors, cut>(p, i, j, last);
}

template <class T>
HWY_INLINE void SmallByRows(const Product<T>& p) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(hn::ScalableTag<T>()));
  Index j = 0;
  for (; j + 2 * lanes <= p.n; j += 2 * lanes) SmallColumns<2, false>(p, j, 0);
  if (j + lanes <= p.n) {
    SmallColumns<1, false>(p, j, 0);
    j += lanes;
  }
  if (j < p.n) SmallColumns<1, true>(p, j, p.n - j);
}

// B by rows is read in place; by columns it is copied first.
template <class T>
HWY_INLINE void SmallOf(const Product<T>& p) {
  if (p.b_column == 1 || p.n == 1) return SmallByRows(p);
  T copy[copy_elements];
  if (p.b_row == 1) {
    Transpose(p.b, p.b_column, p.n, p.k, T{1}, copy, p.n);
  } else {
    for (Index k = 0; k < p.k; ++k)
      for (Index j = 0; j < p.n; ++j) copy[k * p.n + j] = p.b[k * p.b_row + j * p.b_column];
  }
  Product<T> dense = p;
  dense.b = copy;
  dense.b_row = p.n;
  dense.b_column = 1;
  SmallByRows(dense);
}

HWY_ATTR void SmallF32(const Product<float>& p) { SmallOf(p); }
HWY_ATTR void SmallF64(const Product<double>& p) { SmallOf(p); }

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
namespace {

HWY_EXPORT(SmallF32);
HWY_EXPORT(SmallF64);

template <class T>
bool small(const Product<T>& p, Index most) {
  if (p.m * p.n > most || p.k > most || p.m * p.n * p.k > most) return false;
  return p.b_column == 1 || p.n == 1 || p.k * p.n <= copy_elements;
}

}  // namespace

// Without packing, few rows are served best at any size: B is read once either way.
bool is_small(const Product<float>& p) { return small(p, 32 * 32 * 32) || (p.m <= 4 && p.b_column == 1); }
bool is_small(const Product<double>& p) { return small(p, 32 * 32 * 32) || (p.m <= 4 && p.b_column == 1); }

void gemm_small(const Product<float>& p) { HWY_DYNAMIC_DISPATCH(SmallF32)(p); }
void gemm_small(const Product<double>& p) { HWY_DYNAMIC_DISPATCH(SmallF64)(p); }

}  // namespace capstan::kernels
#endif
