// Rows of q, k, v and dO as the attention kernels want them, dense or as panels with queries in the lanes, and panels back
// to rows. For inclusion by SIMD .cpp files.

#if defined(CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#undef CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#else
#define CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#endif

#include <capstan/ops/kernels/attention_parts.h>
#include <capstan/ops/kernels/tile-inl.h>
#include <capstan/ops/kernels/transpose-inl.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of queries, and queries, in a panel.
inline constexpr Index panel_vectors = 3;
template <class T>
inline constexpr Index panel = panel_vectors * lanes<T>;

/// Rows [count, width] with dense elements.
template <class T>
struct DenseRows {
  const T* data;
  Index row;
};

/// Row i, 0 if it is not alive, and 0 from `width` to `padded`.
template <class T>
HWY_INLINE void CopyRow(HeadRows<const T> x, Index i, Index width, Index padded, bool alive, T* to) {
  const T* from = x.data + i * x.row;
  if (!alive) {
    std::fill_n(to, width, T{0});
  } else if (x.column == 1) {
    std::copy_n(from, width, to);
  } else {
    for (Index d = 0; d < width; ++d) to[d] = from[d * x.column];
  }
  std::fill_n(to + width, padded - width, T{0});
}

/// `count` rows as they lie in memory if that will do, else copied to `scratch`. Rows that are not `alive` (null: all are)
/// are taken as 0.
template <class T>
HWY_INLINE DenseRows<T> Dense(HeadRows<const T> x, Index first, Index count, Index width, const bool* alive,
                              T* scratch) {
  bool all = true;
  if (alive != nullptr)
    for (Index i = 0; i < count; ++i) all &= alive[i];
  // Rows a multiple of 1 KiB apart crowd into few sets of the cache.
  const bool crowded = x.row * static_cast<Index>(sizeof(T)) % 1024 == 0 && x.row > width;
  if (all && x.column == 1 && !crowded) return {x.data + first * x.row, x.row};
  for (Index i = 0; i < count; ++i)
    CopyRow(x, first + i, width, width, alive == nullptr || alive[i], scratch + i * width);
  return {scratch, width};
}

/// A panel [width, panel] = factor · rowsᵀ, lanes beyond `count` 0.
template <class T>
HWY_INLINE void PackPanel(DenseRows<T> rows, Index count, Index width, T factor, T* to) {
  if (count < panel<T>)
    for (Index j = 0; j < width; ++j) std::fill_n(to + j * panel<T> + count, panel<T> - count, T{0});
  Transpose(rows.data, rows.row, count, width, factor, to, panel<T>);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
