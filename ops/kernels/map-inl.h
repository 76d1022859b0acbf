// Applies a vector function to a dense piece, for inclusion by SIMD .cpp files. The tail passes through the same
// function under a mask, so an element's bits do not depend on its place.

#if defined(CAPSTAN_OPS_KERNELS_MAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_MAP_INL_H
#undef CAPSTAN_OPS_KERNELS_MAP_INL_H
#else
#define CAPSTAN_OPS_KERNELS_MAP_INL_H
#endif

#include <capstan/ops/kernels/element_loop.h>
#include <capstan/ops/kernels/partial-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[i] = f(d, x[i]).
template <class T, class F>
HWY_INLINE void MapOne(const Piece& piece, const F& f) {
  const hn::ScalableTag<T> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  T* y = piece.output<T>();
  const T* x = piece.input<T>(0);
  const Index count = piece.count;
  const bool scalar = piece.scalar[0];
  const auto first = hn::Set(d, x[0]);
  Index i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(d, scalar ? first : hn::LoadU(d, x + i)), d, y + i);
  if (i == count) return;
  StorePart(f(d, scalar ? first : LoadPart(d, x + i, count - i)), d, y + i, count - i);
}

template <class T, bool a_scalar, bool b_scalar, class F>
HWY_INLINE void MapTwoForm(const Piece& piece, const F& f) {
  const hn::ScalableTag<T> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  T* y = piece.output<T>();
  const T* a = piece.input<T>(0);
  const T* b = piece.input<T>(1);
  const Index count = piece.count;
  const auto first_a = hn::Set(d, a[0]);
  const auto first_b = hn::Set(d, b[0]);
  Index i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto at_a = a_scalar ? first_a : hn::LoadU(d, a + (a_scalar ? 0 : i));
    const auto at_b = b_scalar ? first_b : hn::LoadU(d, b + (b_scalar ? 0 : i));
    hn::StoreU(f(d, at_a, at_b), d, y + i);
  }
  if (i == count) return;
  const auto at_a = a_scalar ? first_a : LoadPart(d, a + (a_scalar ? 0 : i), count - i);
  const auto at_b = b_scalar ? first_b : LoadPart(d, b + (b_scalar ? 0 : i), count - i);
  StorePart(f(d, at_a, at_b), d, y + i, count - i);
}

/// y[i] = f(d, a[i], b[i]).
template <class T, class F>
HWY_INLINE void MapTwo(const Piece& piece, const F& f) {
  if (piece.scalar[0]) {
    if (piece.scalar[1]) return MapTwoForm<T, true, true>(piece, f);
    return MapTwoForm<T, true, false>(piece, f);
  }
  if (piece.scalar[1]) return MapTwoForm<T, false, true>(piece, f);
  return MapTwoForm<T, false, false>(piece, f);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
