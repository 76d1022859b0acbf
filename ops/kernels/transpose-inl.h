// The transpose of a matrix with dense rows, times a factor, for inclusion by SIMD .cpp files. Not for: tensors of any
// strides (copy.h).

#if defined(CAPSTAN_OPS_KERNELS_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_TRANSPOSE_INL_H
#undef CAPSTAN_OPS_KERNELS_TRANSPOSE_INL_H
#else
#define CAPSTAN_OPS_KERNELS_TRANSPOSE_INL_H
#endif

#include <capstan/autograd/shape.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

/// The strips of `rows`, then those of half as many rows, down to 128 bits; returns how many rows that is.
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
  if constexpr (height > side)
    i += TransposeStrips(hn::Half<D>(), from + i * from_row, from_row, rows - i, columns, factor, to + i, to_row);
  return i;
}

/// to [columns, rows] = factor · fromᵀ, from [rows, columns].
template <class T>
HWY_INLINE void Transpose(const T* from, Index from_row, Index rows, Index columns, T factor, T* to, Index to_row) {
  Index i = TransposeStrips(hn::ScalableTag<T>(), from, from_row, rows, columns, factor, to, to_row);
  for (; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) to[j * to_row + i] = factor * from[i * from_row + j];
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
