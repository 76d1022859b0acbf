// Loading and storing the first lanes of a vector without touching memory beyond them, for inclusion by SIMD .cpp files.
//
// Highway's MaskedLoad and BlendedStore may do so only where the processor masks memory accesses (AVX2, AVX-512).
// Elsewhere version 1.0.3 loads the whole vector and selects, which reads past the end of an array, and on NEON stores
// past it too. There the lanes go through a small array, as they do under sanitizers, which see no masked access
// (CAPSTAN_LANE_BY_LANE).

#if defined(CAPSTAN_OPS_KERNELS_PARTIAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_PARTIAL_INL_H
#undef CAPSTAN_OPS_KERNELS_PARTIAL_INL_H
#else
#define CAPSTAN_OPS_KERNELS_PARTIAL_INL_H
#endif

#include <capstan/autograd/shape.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x[0 … count), the lanes beyond 0. count is at most the number of lanes.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadPart(D d, const T* x, Index count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(CAPSTAN_LANE_BY_LANE)
  if constexpr (sizeof(T) >= 4 || HWY_TARGET <= HWY_AVX3)  // AVX2 masks no bytes
    return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, x);
#endif
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  for (Index i = 0; i < count; ++i) lanes[i] = x[i];
  return hn::Load(d, lanes);
}

/// y[0 … count) = the first lanes of v.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StorePart(hn::Vec<D> v, D d, T* y, Index count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(CAPSTAN_LANE_BY_LANE)
  hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(count)), d, y);
#else
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (Index i = 0; i < count; ++i) y[i] = lanes[i];
#endif
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
