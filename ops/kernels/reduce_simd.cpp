// Sums, sums of squares, maxima and minima of dense runs and of columns. f32 is widened to f64 on the way in.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/reduce_simd.cpp>
#include <capstan/ops/kernels/reduce_simd.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/partial-inl.h>

#include <cmath>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
inline constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));

HWY_INLINE V LoadWide(const double* x) { return hn::LoadU(D(), x); }
HWY_INLINE V LoadWide(const float* x) { return hn::PromoteTo(D(), hn::LoadU(hn::Rebind<float, D>(), x)); }
HWY_INLINE V LoadWidePart(const double* x, Index count, V rest) {
  const auto mask = hn::FirstN(D(), static_cast<std::size_t>(count));
  return hn::IfThenElse(mask, LoadPart(D(), x, count), rest);
}
HWY_INLINE V LoadWidePart(const float* x, Index count, V rest) {
  const hn::Rebind<float, D> narrow;
  const auto wide = hn::PromoteTo(D(), LoadPart(narrow, x, count));
  return hn::IfThenElse(hn::FirstN(D(), static_cast<std::size_t>(count)), wide, rest);
}

template <Fold fold>
constexpr bool is_sum = fold == Fold::sum || fold == Fold::squares;

template <Fold fold>
constexpr double Identity() {
  if constexpr (fold == Fold::largest) return -std::numeric_limits<double>::infinity();
  if constexpr (fold == Fold::smallest) return std::numeric_limits<double>::infinity();
  return 0.0;
}

/// Of two values, what a maximum or minimum keeps. NaN wins, whichever side it is on.
template <Fold fold>
HWY_INLINE V Better(V a, V b) {
  const auto wins = fold == Fold::smallest ? hn::Lt(b, a) : hn::Gt(b, a);
  return hn::IfThenElse(hn::Or(wins, hn::IsNaN(b)), b, a);
}

template <Fold fold>
HWY_INLINE V Step(V sum, V x, V scale) {
  if constexpr (fold == Fold::sum) return hn::Add(sum, x);
  if constexpr (fold == Fold::squares) {
    const V scaled = hn::Mul(x, scale);
    return hn::MulAdd(scaled, scaled, sum);
  }
  if constexpr (fold == Fold::magnitude) x = hn::Abs(x);
  return Better<fold>(sum, x);
}
template <Fold fold>
HWY_INLINE double Join(double a, double b) {
  if constexpr (is_sum<fold>) return a + b;
  return (fold == Fold::smallest ? b < a : b > a) || std::isnan(b) ? b : a;
}
template <Fold fold>
HWY_INLINE V JoinLanes(V a, V b) {
  if constexpr (is_sum<fold>) return hn::Add(a, b);
  return Better<fold>(a, b);
}

template <Fold fold, class T>
HWY_INLINE double Run(const T* x, Index count, double scale_value) {
  const D d;
  const V identity = hn::Set(d, Identity<fold>()), scale = hn::Set(d, scale_value);
  V s0 = identity, s1 = identity, s2 = identity, s3 = identity;
  Index i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = Step<fold>(s0, LoadWide(x + i), scale);
    s1 = Step<fold>(s1, LoadWide(x + i + lanes), scale);
    s2 = Step<fold>(s2, LoadWide(x + i + 2 * lanes), scale);
    s3 = Step<fold>(s3, LoadWide(x + i + 3 * lanes), scale);
  }
  for (; i + lanes <= count; i += lanes) s0 = Step<fold>(s0, LoadWide(x + i), scale);
  if (i < count) s1 = Step<fold>(s1, LoadWidePart(x + i, count - i, identity), scale);
  HWY_ALIGN double values[lanes];
  hn::Store(JoinLanes<fold>(JoinLanes<fold>(s0, s1), JoinLanes<fold>(s2, s3)), d, values);
  double result = values[0];
  for (Index lane = 1; lane < lanes; ++lane) result = Join<fold>(result, values[lane]);
  return result;
}

/// `vectors` columns of vectors, held in registers down all rows.
template <Fold fold, Index vectors, class T>
HWY_INLINE void Strip(const T* x, Index row, Index rows, V scale, double* sums) {
  const D d;
  V s[vectors];
  for (Index v = 0; v < vectors; ++v) s[v] = hn::LoadU(d, sums + v * lanes);
  for (Index r = 0; r < rows; ++r, x += row)
    for (Index v = 0; v < vectors; ++v) s[v] = Step<fold>(s[v], LoadWide(x + v * lanes), scale);
  for (Index v = 0; v < vectors; ++v) hn::StoreU(s[v], d, sums + v * lanes);
}

template <Fold fold, class T>
HWY_INLINE void Rows(const T* x, Index row, Index rows, Index width, double scale_value, double* sums) {
  const D d;
  const V scale = hn::Set(d, scale_value);
  Index j = 0;
  for (; j + 8 * lanes <= width; j += 8 * lanes) Strip<fold, 8>(x + j, row, rows, scale, sums + j);
  for (; j + lanes <= width; j += lanes) Strip<fold, 1>(x + j, row, rows, scale, sums + j);
  if (j == width) return;
  V s = LoadPart(d, sums + j, width - j);
  for (Index r = 0; r < rows; ++r) s = Step<fold>(s, LoadWidePart(x + r * row + j, width - j, hn::Zero(d)), scale);
  StorePart(s, d, sums + j, width - j);
}

template <class T>
HWY_INLINE double RunOf(Fold fold, const T* x, Index count, double scale) {
  switch (fold) {
    case Fold::sum: return Run<Fold::sum>(x, count, scale);
    case Fold::squares: return Run<Fold::squares>(x, count, scale);
    case Fold::largest: return Run<Fold::largest>(x, count, scale);
    case Fold::smallest: return Run<Fold::smallest>(x, count, scale);
    case Fold::magnitude: break;
  }
  return Run<Fold::magnitude>(x, count, scale);
}
template <class T>
HWY_INLINE void RowsOf(Fold fold, const T* x, Index row, Index rows, Index width, double scale, double* sums) {
  switch (fold) {
    case Fold::sum: return Rows<Fold::sum>(x, row, rows, width, scale, sums);
    case Fold::squares: return Rows<Fold::squares>(x, row, rows, width, scale, sums);
    case Fold::largest: return Rows<Fold::largest>(x, row, rows, width, scale, sums);
    case Fold::smallest: return Rows<Fold::smallest>(x, row, rows, width, scale, sums);
    case Fold::magnitude: break;
  }
  return Rows<Fold::magnitude>(x, row, rows, width, scale, sums);
}

HWY_ATTR double RunF32(Fold fold, const float* x, Index count, double scale) { return RunOf(fold, x, count, scale); }
HWY_ATTR double RunF64(Fold fold, const double* x, Index count, double scale) { return RunOf(fold, x, count, scale); }
HWY_ATTR void RowsF32(Fold fold, const float* x, Index row, Index rows, Index width, double scale, double* sums) {
  RowsOf(fold, x, row, rows, width, scale, sums);
}
HWY_ATTR void RowsF64(Fold fold, const double* x, Index row, Index rows, Index width, double scale, double* sums) {
  RowsOf(fold, x, row, rows, width, scale, sums);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(RunF32);
HWY_EXPORT(RunF64);
HWY_EXPORT(RowsF32);
HWY_EXPORT(RowsF64);

FoldKernels fold_kernels() {
  return {HWY_DYNAMIC_DISPATCH(RunF32), HWY_DYNAMIC_DISPATCH(RunF64), HWY_DYNAMIC_DISPATCH(RowsF32),
          HWY_DYNAMIC_DISPATCH(RowsF64)};
}

}  // namespace capstan::kernels
#endif
