// Loops over one dense row, for inclusion by SIMD .cpp files. A place in the row loads and stores whole vectors, or
// parts of one at the row's end.

#if defined(CAPSTAN_OPS_KERNELS_ROW_LOOPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_ROW_LOOPS_INL_H
#undef CAPSTAN_OPS_KERNELS_ROW_LOOPS_INL_H
#else
#define CAPSTAN_OPS_KERNELS_ROW_LOOPS_INL_H
#endif

#include <capstan/autograd/shape.h>
#include <capstan/ops/kernels/partial-inl.h>

#include <algorithm>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Lanes where a byte is not 0.
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE hn::Mask<D> NotZero(D d, V bytes) {
  const hn::RebindToUnsigned<D> bits;
  const auto words = hn::PromoteTo(hn::Rebind<std::uint32_t, D>(), bytes);
  if constexpr (sizeof(T) == 8) {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(bits, words), hn::Zero(bits)));
  } else {
    return hn::RebindMask(d, hn::Ne(words, hn::Zero(bits)));
  }
}

/// A whole vector of the row, from element i.
template <class T>
struct Whole {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  Index i;
  HWY_INLINE V Load(const T* x) const { return hn::LoadU(D(), x + i); }
  HWY_INLINE hn::Mask<D> Load(const bool* x) const {
    return NotZero(D(), hn::LoadU(hn::Rebind<std::uint8_t, D>(), reinterpret_cast<const std::uint8_t*>(x) + i));
  }
  HWY_INLINE void Store(V v, T* y) const { hn::StoreU(v, D(), y + i); }
  HWY_INLINE V Keep(V v) const { return v; }
};

/// The row's last `count` elements; lanes beyond them load as 0.
template <class T>
struct Part {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  Index i;
  Index count;
  HWY_INLINE hn::Mask<D> Mask() const { return hn::FirstN(D(), static_cast<std::size_t>(count)); }
  HWY_INLINE V Load(const T* x) const { return LoadPart(D(), x + i, count); }
  HWY_INLINE hn::Mask<D> Load(const bool* x) const {
    return NotZero(D(), LoadPart(hn::Rebind<std::uint8_t, D>(), reinterpret_cast<const std::uint8_t*>(x) + i, count));
  }
  HWY_INLINE void Store(V v, T* y) const { StorePart(v, D(), y + i, count); }
  HWY_INLINE V Keep(V v) const { return hn::IfThenElseZero(Mask(), v); }
};

/// f(place) along the row.
template <class T, class F>
HWY_INLINE void RowEach(Index count, const F& f) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(hn::ScalableTag<T>()));
  Index i = 0;
  for (; i + lanes <= count; i += lanes) f(Whole<T>{i});
  if (i < count) f(Part<T>{i, count - i});
}

/// Σ f(place), by vectors over 1024 elements and in f64 beyond.
template <class T, class F>
HWY_INLINE double RowSum(Index count, const F& f) {
  const hn::ScalableTag<T> d;
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(d));
  double total = 0;
  for (Index begin = 0; begin < count; begin += 1024) {
    const Index end = std::min(count, begin + 1024);
    auto s0 = hn::Zero(d), s1 = hn::Zero(d);
    Index i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      s0 = hn::Add(s0, f(Whole<T>{i}));
      s1 = hn::Add(s1, f(Whole<T>{i + lanes}));
    }
    if (i + lanes <= end) {
      s0 = hn::Add(s0, f(Whole<T>{i}));
      i += lanes;
    }
    if (i < end) {
      const Part<T> part{i, end - i};
      s1 = hn::Add(s1, part.Keep(f(part)));
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))));
  }
  return total;
}

/// The largest lane; what NaN does is not specified.
template <class T, class D = hn::ScalableTag<T>>
HWY_INLINE T LargestLane(hn::Vec<D> v) {
  const D d;
#if HWY_TARGET == HWY_EMU128
  // Highway 1.0.3 begins with the lowest finite number there.
  const T lowest = -std::numeric_limits<T>::infinity();
  if (hn::AllTrue(d, hn::Eq(v, hn::Set(d, lowest)))) return lowest;
#endif
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

/// The largest f(place); what NaN does is not specified. −∞ for an empty row.
template <class T, class F>
HWY_INLINE T RowMax(Index count, const F& f) {
  const hn::ScalableTag<T> d;
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto largest = lowest;
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(d));
  Index i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, f(Whole<T>{i}));
  if (i < count) {
    const Part<T> part{i, count - i};
    largest = hn::Max(largest, hn::IfThenElse(part.Mask(), f(part), lowest));
  }
  return LargestLane<T>(largest);
}
template <class T>
HWY_INLINE T RowMax(const T* x, Index count) {
  return RowMax<T>(count, [&](const auto& at) HWY_ATTR { return at.Load(x); });
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
