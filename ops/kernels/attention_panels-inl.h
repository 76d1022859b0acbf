// Rows of q, k, v and dO as the attention kernels want them, dense or as panels with queries in the lanes, and panels back
// to rows. For inclusion by SIMD .cpp files.

#if defined(CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#undef CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#else
#define CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#endif

#include <capstan/ops/kernels/attention_parts.h>
#include <capstan/ops/kernels/partial-inl.h>
#include <capstan/ops/kernels/tile-inl.h>
#include <capstan/ops/kernels/transpose-inl.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of queries, and queries, in a panel.
inline constexpr Index panel_vectors = 3;
template <class T>
inline constexpr Index panel = panel_vectors* lanes<T>;

/// Up to whole vectors.
template <class T>
constexpr Index Padded(Index width, Index L = lanes<T>) {
  return (width + L - 1) / L * L;
}

/// Rows [count, width] with dense elements.
template <class T>
struct DenseRows {
  const T* data;
  Index row;
};

/// Brings what the next head reads and writes into the second-level cache while this one is worked on, a portion at
/// each step: short heads would else spend a third of their time waiting for memory.
template <class T>
class Ahead {
 public:
  /// There will be about `steps` steps.
  explicit Ahead(Index steps) : portions_(std::max(Index{1}, steps)) {}
  /// One head of a tensor [B, H, T, D]; nothing for a view without a layout.
  template <class V>
  void Add(const V& view, Index b, Index h) {
    if (view.layout == nullptr) return;
    const HeadRows<const T> rows(view, b, h);
    if (rows.column == 1) heads_[count_++] = {rows.data, rows.row, view.shape()[2], view.shape()[3]};
  }
  HWY_INLINE void Step() {
    if (count_ == 0 || done_ == portions_) return;
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    for (Index n = 0; n < count_; ++n) {
      const Head& x = heads_[n];
      for (Index i = done_ * x.rows / portions_, end = (done_ + 1) * x.rows / portions_; i < end; ++i)
        for (Index j = 0; j < x.width; j += line) __builtin_prefetch(x.data + i * x.row + j, 0, 2);
    }
    ++done_;
  }

 private:
  struct Head {
    const T* data;
    Index row, rows, width;
  };
  Head heads_[8];
  Index count_ = 0, done_ = 0, portions_;
};

/// Row i, 0 if it is not alive, and 0 from `width` to `padded`, which is `width` or that up to whole vectors. Rows are
/// short: calls of memcpy and memset would cost more than they move.
template <class T, class D = hn::ScalableTag<T>>
HWY_INLINE void CopyRow(HeadRows<const T> x, Index i, Index width, Index padded, bool alive, T* to, D d = {}) {
  constexpr Index L = static_cast<Index>(hn::MaxLanes(D()));
  const T* from = x.data + i * x.row;
  Index j = 0;
  if (x.column == 1 || !alive) {
    for (; j + L <= width; j += L) hn::StoreU(alive ? hn::LoadU(d, from + j) : hn::Zero(d), d, to + j);
    if (j == width) return;
    const auto rest = alive ? LoadPart(d, from + j, width - j) : hn::Zero(d);
    padded > width ? hn::StoreU(rest, d, to + j) : StorePart(rest, d, to + j, width - j);
    return;
  }
  if (padded > width) hn::StoreU(hn::Zero(d), d, to + padded - L);
  for (; j < width; ++j) to[j] = from[j * x.column];
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
