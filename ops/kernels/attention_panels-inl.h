// Rows of q, k, v and dO as the attention kernels want them, dense or as panels with queries in the lanes, and panels back
// to rows. For inclusion by SIMD .cpp files.

#if defined(CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#undef CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#else
#define CAPSTAN_OPS_KERNELS_ATTENTION_PANELS_INL_H
#endif

#include <capstan/ops/kernels/attention_parts.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr Index lanes = static_cast<Index>(hn::MaxLanes(hn::ScalableTag<T>()));
/// Vectors of queries, and queries, in a panel.
inline constexpr Index panel_vectors = 3;
template <class T>
inline constexpr Index panel = panel_vectors* lanes<T>;

/// Up to whole vectors.
template <class T>
constexpr Index Padded(Index width) {
  return (width + lanes<T> - 1) / lanes<T> * lanes<T>;
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
template <class T>
HWY_INLINE void CopyRow(HeadRows<const T> x, Index i, Index width, Index padded, bool alive, T* to) {
  const hn::ScalableTag<T> d;
  const T* from = x.data + i * x.row;
  if (padded > width) hn::StoreU(hn::Zero(d), d, to + padded - lanes<T>);
  Index j = 0;
  if (x.column == 1 || !alive)
    for (; j + lanes<T> <= width; j += lanes<T>) hn::StoreU(alive ? hn::LoadU(d, from + j) : hn::Zero(d), d, to + j);
  for (; j < width; ++j) to[j] = alive ? from[j * x.column] : T{0};
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

/// A vector whose n-th 128 bits come from `from` + n · step.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* from, Index step) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    const Index blocks = static_cast<Index>(hn::MaxLanes(half) * sizeof(T) / 16);
    const auto lower = LoadBlocks(half, from, step);
    return hn::Combine(d, LoadBlocks(half, from + blocks * step, step), lower);
  }
}

/// The transpose of a strip, as many rows as D has lanes by 128 bits: each block of four (f64: two) rows is transposed
/// within its 128 bits.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void TransposeStrip(D d, const T* from, Index from_row, T factor, T* to, Index to_row) {
  constexpr Index side = 16 / static_cast<Index>(sizeof(T));
  const auto f = hn::Set(d, factor);
  const auto r0 = LoadBlocks(d, from, side * from_row), r1 = LoadBlocks(d, from + from_row, side * from_row);
  if constexpr (side == 4) {
    const auto r2 = LoadBlocks(d, from + 2 * from_row, side * from_row),
               r3 = LoadBlocks(d, from + 3 * from_row, side * from_row);
    const auto even0 = hn::InterleaveLower(d, r0, r2), odd0 = hn::InterleaveLower(d, r1, r3);
    const auto even1 = hn::InterleaveUpper(d, r0, r2), odd1 = hn::InterleaveUpper(d, r1, r3);
    hn::StoreU(hn::Mul(f, hn::InterleaveLower(d, even0, odd0)), d, to);
    hn::StoreU(hn::Mul(f, hn::InterleaveUpper(d, even0, odd0)), d, to + to_row);
    hn::StoreU(hn::Mul(f, hn::InterleaveLower(d, even1, odd1)), d, to + 2 * to_row);
    hn::StoreU(hn::Mul(f, hn::InterleaveUpper(d, even1, odd1)), d, to + 3 * to_row);
  } else {
    hn::StoreU(hn::Mul(f, hn::InterleaveLower(d, r0, r1)), d, to);
    hn::StoreU(hn::Mul(f, hn::InterleaveUpper(d, r0, r1)), d, to + to_row);
  }
}

/// The strips of `rows`; returns how many rows that is.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE Index TransposeStrips(D d, const T* from, Index from_row, Index rows, Index columns, T factor, T* to,
                                 Index to_row) {
  constexpr Index side = 16 / static_cast<Index>(sizeof(T)), height = static_cast<Index>(hn::MaxLanes(D()));
  Index i = 0;
  for (; i + height <= rows; i += height) {
    Index j = 0;
    for (; j + side <= columns; j += side)
      TransposeStrip(d, from + i * from_row + j, from_row, factor, to + j * to_row + i, to_row);
    for (; j < columns; ++j)
      for (Index r = i; r < i + height; ++r) to[j * to_row + r] = factor * from[r * from_row + j];
  }
  return i;
}

/// to [columns, rows] = factor · fromᵀ, from [rows, columns].
template <class T>
HWY_INLINE void Transpose(const T* from, Index from_row, Index rows, Index columns, T factor, T* to, Index to_row) {
  Index i = TransposeStrips(hn::ScalableTag<T>(), from, from_row, rows, columns, factor, to, to_row);
  i += TransposeStrips(hn::FixedTag<T, 16 / sizeof(T)>(), from + i * from_row, from_row, rows - i, columns, factor,
                       to + i, to_row);
  for (; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) to[j * to_row + i] = factor * from[i * from_row + j];
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
