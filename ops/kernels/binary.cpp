// add, sub, mul, div, minimum, maximum on SIMD; pow by libm; i32 by loops that the compiler vectorises.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/binary.cpp>
#include <capstan/autograd/format.h>
#include <capstan/ops/kernels/elementwise.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/map-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

// One functor each: f(d, a, b).
#define CAPSTAN_BINARY(name, formula)                                       \
  struct name {                                                             \
    template <class D>                                                      \
    HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const { \
      return formula;                                                       \
    }                                                                       \
  };
CAPSTAN_BINARY(AddOf, hn::Add(a, b))
CAPSTAN_BINARY(SubOf, hn::Sub(a, b))
CAPSTAN_BINARY(MulOf, hn::Mul(a, b))
CAPSTAN_BINARY(DivOf, hn::Div(a, b))
// Not hn::Min and hn::Max: on x86 they drop a NaN in their first operand.
CAPSTAN_BINARY(MinimumOf, hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b))
CAPSTAN_BINARY(MaximumOf, hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b))
#undef CAPSTAN_BINARY

struct MulSlopeOf {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> a, hn::Vec<D> b) const {
    const auto infinite = hn::Eq(hn::Abs(b), hn::Set(d, std::numeric_limits<T>::infinity()));
    return hn::IfThenZeroElse(hn::And(infinite, hn::Eq(a, hn::Zero(d))), hn::Mul(a, b));
  }
};

template <class T>
HWY_INLINE void FloatsOf(Binary op, const Piece& piece) {
  switch (op) {
    case Binary::add: return MapTwo<T>(piece, AddOf{});
    case Binary::sub: return MapTwo<T>(piece, SubOf{});
    case Binary::mul: return MapTwo<T>(piece, MulOf{});
    case Binary::div: return MapTwo<T>(piece, DivOf{});
    case Binary::mul_slope: return MapTwo<T>(piece, MulSlopeOf{});
    case Binary::minimum: return MapTwo<T>(piece, MinimumOf{});
    default: return MapTwo<T>(piece, MaximumOf{});
  }
}

HWY_ATTR void Floats(Binary op, DType dtype, const Piece& piece) {
  dtype == DType::f32 ? FloatsOf<float>(op, piece) : FloatsOf<double>(op, piece);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
namespace {

HWY_EXPORT(Floats);

template <class T, class F>
void map_two(Index grain, ConstView a, ConstView b, View y, F f) {
  for_pieces(Region::elementwise, y, {a, b}, grain, [&](const Piece& piece) {
    const Index step_a = piece.scalar[0] ? 0 : 1, step_b = piece.scalar[1] ? 0 : 1;
    for (Index i = 0; i < piece.count; ++i)
      piece.output<T>()[i] = f(piece.input<T>(0)[i * step_a], piece.input<T>(1)[i * step_b]);
  });
}

void powers(ConstView a, ConstView b, View y) {
  visit_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    map_two<T>(libm_grain, a, b, y, [](T base, T exponent) { return std::pow(base, exponent); });
  });
}

/// Computed without a sign, where overflow wraps around instead of being undefined.
template <class F>
void wrapping(ConstView a, ConstView b, View y, F f) {
  map_two<std::int32_t>(cheap_grain, a, b, y, [f](std::int32_t p, std::int32_t q) {
    return static_cast<std::int32_t>(f(static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(q)));
  });
}

void integers(Binary op, ConstView a, ConstView b, View y) {
  using Unsigned = std::uint32_t;
  switch (op) {
    case Binary::add: return wrapping(a, b, y, [](Unsigned p, Unsigned q) { return p + q; });
    case Binary::sub: return wrapping(a, b, y, [](Unsigned p, Unsigned q) { return p - q; });
    case Binary::mul: return wrapping(a, b, y, [](Unsigned p, Unsigned q) { return p * q; });
    case Binary::minimum:
      return map_two<std::int32_t>(cheap_grain, a, b, y, [](auto p, auto q) { return std::min(p, q); });
    case Binary::maximum:
      return map_two<std::int32_t>(cheap_grain, a, b, y, [](auto p, auto q) { return std::max(p, q); });
    case Binary::div:
    case Binary::pow:
    case Binary::mul_slope: break;
  }
  fail("binary: division, powers and slopes must be given f32 or f64; got {}", y.dtype);
}

}  // namespace

void binary(Binary op, ConstView a, ConstView b, View y) {
  if (!is_float(y.dtype)) return integers(op, a, b, y);
  if (op == Binary::pow) return powers(a, b, y);
  const auto kernel = HWY_DYNAMIC_DISPATCH(Floats);
  for_pieces(Region::elementwise, y, {a, b}, cheap_grain, [&](const Piece& piece) { kernel(op, y.dtype, piece); });
}

}  // namespace capstan::kernels
#endif
