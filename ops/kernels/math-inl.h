// Vector forms of exp, log, tanh, sin, cos for f32 and f64 (sin and cos: f64), for inclusion by SIMD .cpp files.
// Not for: erf, erfc, pow (libm serves them).
//
// Why not Highway's contrib/math: its Exp costs twice as much, and its Sin and Cos are only good for |x| < 39000.
// Polynomials are Taylor series cut below half an ulp, ranges reduced in the manner of Cody and Waite (1980), log in the
// form of W. Kahan and K. C. Ng. Errors, measured against long double over all binades: below 2.5 ulp (exp and log below
// 1.1).
//
// NaN stays NaN: x86's Max and Min return their second operand if one is NaN, other processors differ, so NaN lanes are
// put back explicitly.

#if defined(CAPSTAN_OPS_KERNELS_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_MATH_INL_H
#undef CAPSTAN_OPS_KERNELS_MATH_INL_H
#else
#define CAPSTAN_OPS_KERNELS_MATH_INL_H
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Int = std::int32_t;
  static constexpr int mantissa = 23;
  static constexpr Int bias = 127;
  static constexpr float magic = 12582912.0f;  // 1.5 · 2²³: adding it rounds to the nearest integer
  // Below the first, exp is 0; above the second, infinite.
  static constexpr float exp_low = -104.0f, exp_high = 89.0f;
  // ln 2 in two parts; the first has few enough bits that its product with an exponent is exact.
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float tanh_one = 20.0f;  // tanh(x) is 1 for 2x above
};
template <>
struct FloatBits<double> {
  using Int = std::int64_t;
  static constexpr int mantissa = 52;
  static constexpr Int bias = 1023;
  static constexpr double magic = 6755399441055744.0;  // 1.5 · 2⁵²
  static constexpr double exp_low = -746.0, exp_high = 710.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double tanh_one = 44.0;
};

/// c[0] + c[1] x + … by Horner's rule, unrolled.
template <std::size_t count, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Polynomial(D d, hn::Vec<D> x, const T (&c)[count]) {
  hn::Vec<D> sum = hn::Set(d, c[count - 1]);
  for (std::size_t i = count - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

/// x = n ln 2 + r with |r| ≤ ln 2 / 2; n comes as a float and as magic + n.
template <class D>
struct Reduced {
  hn::Vec<D> n, n_plus_magic, r;
};
template <class D, class T = hn::TFromD<D>>
HWY_INLINE Reduced<D> ReduceByLn2(D d, hn::Vec<D> x) {
  const auto magic = hn::Set(d, FloatBits<T>::magic);
  const auto n_plus_magic = hn::MulAdd(x, hn::Set(d, static_cast<T>(1.44269504088896340736)), magic);
  const auto n = hn::Sub(n_plus_magic, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, FloatBits<T>::ln2_high), x);
  r = hn::NegMulAdd(n, hn::Set(d, FloatBits<T>::ln2_low), r);
  return {n, n_plus_magic, r};
}

/// exp(r) − 1 for |r| ≤ ln 2 / 2.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> ExpMinusOneReduced(D d, hn::Vec<D> r) {
  if constexpr (std::is_same_v<T, float>) {
    constexpr float c[] = {1 / 2.0f, 1 / 6.0f, 1 / 24.0f, 1 / 120.0f, 1 / 720.0f, 1 / 5040.0f};
    return hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, c), r);
  } else {
    constexpr double c[] = {1 / 2.0,       1 / 6.0,        1 / 24.0,        1 / 120.0,
                            1 / 720.0,     1 / 5040.0,     1 / 40320.0,     1 / 362880.0,
                            1 / 3628800.0, 1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0};
    return hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, c), r);
  }
}

/// 2ⁿ from magic + n, for n within the exponents of normal numbers.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, hn::Vec<D> n_plus_magic) {
  using Bits = FloatBits<T>;
  const hn::RebindToSigned<D> di;
  const auto n = hn::Sub(hn::BitCast(di, n_plus_magic), hn::BitCast(di, hn::Set(d, Bits::magic)));
  return hn::BitCast(d, hn::ShiftLeft<Bits::mantissa>(hn::Add(n, hn::Set(di, Bits::bias))));
}

/// exp(x); subnormal results are rounded once.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
  using Bits = FloatBits<T>;
  const auto clamped = hn::Min(hn::Max(hn::Set(d, Bits::exp_low), x), hn::Set(d, Bits::exp_high));
  const auto reduced = ReduceByLn2(d, clamped);
  const auto y = hn::Add(ExpMinusOneReduced(d, reduced.r), hn::Set(d, T{1}));
  // 2ⁿ may be beyond the normal numbers though the result is not: scale by two halves.
  const auto magic = hn::Set(d, Bits::magic);
  const auto half_plus_magic = hn::MulAdd(reduced.n, hn::Set(d, T{0.5}), magic);
  const auto rest_plus_magic = hn::Add(hn::Sub(reduced.n, hn::Sub(half_plus_magic, magic)), magic);
  const auto scaled = hn::Mul(hn::Mul(y, PowerOfTwo(d, half_plus_magic)), PowerOfTwo(d, rest_plus_magic));
  return hn::IfThenElse(hn::IsNaN(x), x, scaled);
}

/// exp(x) for x ≤ 0, as softmax needs it: results below the smallest normal number become 0. NaN stays.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> ExpNonPositive(D d, hn::Vec<D> x) {
  constexpr T low = std::is_same_v<T, float> ? static_cast<T>(-87.0) : static_cast<T>(-708.0);
  const auto reduced = ReduceByLn2(d, hn::Max(hn::Set(d, low), x));
  const auto y = hn::Add(ExpMinusOneReduced(d, reduced.r), hn::Set(d, T{1}));
  const auto scaled = hn::Mul(y, PowerOfTwo(d, reduced.n_plus_magic));
  // Neither x ≥ low nor NaN: 0.
  const auto kept = hn::IfThenElseZero(hn::Ge(x, hn::Set(d, low)), scaled);
  return hn::IfThenElse(hn::IsNaN(x), x, kept);
}

/// log(x): −∞ at ±0, NaN below 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Log(D d, hn::Vec<D> x) {
  using Bits = FloatBits<T>;
  using Int = typename Bits::Int;
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  constexpr int lift = Bits::mantissa + 2;  // makes subnormals normal
  const auto subnormal = hn::Lt(x, hn::Set(d, std::numeric_limits<T>::min()));
  const auto lifted = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, static_cast<T>(Int{1} << lift))), x);
  const auto bits = hn::BitCast(di, lifted);

  // The exponent as a float: its bits below those of 2^mantissa.
  const auto biased = hn::BitCast(di, hn::ShiftRight<Bits::mantissa>(hn::BitCast(du, bits)));
  constexpr T two_to_mantissa = static_cast<T>(Int{1} << Bits::mantissa);
  const auto two_to_mantissa_v = hn::Set(d, two_to_mantissa);
  auto e = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::BitCast(di, two_to_mantissa_v))),
                   hn::Set(d, two_to_mantissa + static_cast<T>(Bits::bias)));
  const auto one = hn::Set(d, T{1});
  auto m = hn::BitCast(d, hn::Or(hn::And(bits, hn::Set(di, (Int{1} << Bits::mantissa) - 1)), hn::BitCast(di, one)));
  const auto large = hn::Gt(m, hn::Set(d, static_cast<T>(1.41421356237309504880)));
  m = hn::IfThenElse(large, hn::Mul(m, hn::Set(d, T{0.5})), m);
  e = hn::Add(e, hn::IfThenElseZero(large, one));
  e = hn::Sub(e, hn::IfThenElseZero(subnormal, hn::Set(d, static_cast<T>(lift))));

  // log(1 + f) = f − (f²/2 − s (f²/2 + R)), s = f / (2 + f), R = 2 Σ s^2k / (2k + 1)
  const auto f = hn::Sub(m, one);
  const auto s = hn::Div(f, hn::Add(f, hn::Set(d, T{2})));
  const auto z = hn::Mul(s, s);
  hn::Vec<D> tail;
  if constexpr (std::is_same_v<T, float>) {
    constexpr float c[] = {2 / 3.0f, 2 / 5.0f, 2 / 7.0f, 2 / 9.0f, 2 / 11.0f};
    tail = hn::Mul(z, Polynomial(d, z, c));
  } else {
    constexpr double c[] = {2 / 3.0,  2 / 5.0,  2 / 7.0,  2 / 9.0,  2 / 11.0, 2 / 13.0,
                            2 / 15.0, 2 / 17.0, 2 / 19.0, 2 / 21.0, 2 / 23.0};
    tail = hn::Mul(z, Polynomial(d, z, c));
  }
  const auto half_square = hn::Mul(hn::Mul(f, f), hn::Set(d, T{0.5}));
  const auto low = hn::MulAdd(e, hn::Set(d, Bits::ln2_low), hn::Mul(s, hn::Add(half_square, tail)));
  const auto rest = hn::Sub(hn::Sub(half_square, low), f);
  auto y = hn::Sub(hn::Mul(e, hn::Set(d, Bits::ln2_high)), rest);

  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// tanh(x) = E / (E + 2), E = exp(2|x|) − 1, with x's sign.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Tanh(D d, hn::Vec<D> x) {
  const auto magnitude = hn::Abs(x);
  const auto twice = hn::Min(hn::Add(magnitude, magnitude), hn::Set(d, FloatBits<T>::tanh_one));
  const auto reduced = ReduceByLn2(d, twice);
  const auto scale = PowerOfTwo(d, reduced.n_plus_magic);
  const auto e = hn::MulAdd(scale, ExpMinusOneReduced(d, reduced.r), hn::Sub(scale, hn::Set(d, T{1})));
  const auto y = hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(d, T{2}))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// e = exp(−|x|), and 1 / (1 + e): what sigmoid(x) and its slope are made of, without overflow or cancellation.
template <class D>
struct Sigmoid {
  hn::Vec<D> value;  // sigmoid(x)
  hn::Vec<D> slope;  // sigmoid(x) · (1 − sigmoid(x))
};
template <class D, class T = hn::TFromD<D>>
HWY_INLINE Sigmoid<D> SigmoidOf(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, T{1});
  const auto e = Exp(d, hn::Neg(hn::Abs(x)));
  const auto inverse = hn::Div(one, hn::Add(one, e));
  const auto small = hn::Mul(e, inverse);
  const auto value = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Div(e, hn::Add(one, e)), inverse);
  return {value, hn::Mul(small, inverse)};
}

/// Beyond this |x| the reduction below loses digits, and libm takes over.
inline constexpr double trigonometric_limit = 1e5;

/// sin(x + quadrants · π/2) for |x| ≤ trigonometric_limit, f64; other lanes are unspecified. sin: 0, cos: 1.
template <class D>
HWY_INLINE hn::Vec<D> SinQuadrant(D d, hn::Vec<D> x, std::int64_t quadrants) {
  const hn::RebindToSigned<D> di;
  const auto magic = hn::Set(d, FloatBits<double>::magic);
  const auto n_plus_magic = hn::MulAdd(x, hn::Set(d, 0.63661977236758134308), magic);
  const auto n = hn::Sub(n_plus_magic, magic);
  // π/2 in three parts of 33 bits: their products with n < 2²⁰ are exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 1.57079632673412561417e+00), x);
  r = hn::NegMulAdd(n, hn::Set(d, 6.07710050630396597660e-11), r);
  r = hn::NegMulAdd(n, hn::Set(d, 2.02226624879595063154e-21), r);
  const auto quadrant = hn::Add(hn::Sub(hn::BitCast(di, n_plus_magic), hn::BitCast(di, magic)), hn::Set(di, quadrants));

  const auto z = hn::Mul(r, r);
  constexpr double sine[] = {-1 / 6.0,        1 / 120.0,        -1 / 5040.0,          1 / 362880.0,
                             -1 / 39916800.0, 1 / 6227020800.0, -1 / 1307674368000.0, 1 / 355687428096000.0};
  constexpr double cosine[] = {1 / 24.0,        -1 / 720.0,         1 / 40320.0,         -1 / 3628800.0,
                               1 / 479001600.0, -1 / 87178291200.0, 1 / 20922789888000.0};
  const auto s = hn::MulAdd(hn::Mul(r, z), Polynomial(d, z, sine), r);
  const auto one = hn::Set(d, 1.0);
  const auto half = hn::Mul(z, hn::Set(d, 0.5));
  const auto w = hn::Sub(one, half);
  const auto c = hn::Add(w, hn::MulAdd(hn::Mul(z, z), Polynomial(d, z, cosine), hn::Sub(hn::Sub(one, w), half)));

  const auto odd = hn::Ne(hn::And(quadrant, hn::Set(di, std::int64_t{1})), hn::Zero(di));
  const auto y = hn::IfThenElse(hn::RebindMask(d, odd), c, s);
  // Bit 1 of the quadrant becomes the sign.
  const auto sign = hn::ShiftLeft<62>(hn::And(quadrant, hn::Set(di, std::int64_t{2})));
  return hn::Xor(y, hn::BitCast(d, sign));
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
