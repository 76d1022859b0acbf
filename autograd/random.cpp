// Fills and distributions over Philox. Compiled with -ffp-contract=off, and without any libm function whose result may
// differ between platforms (sqrt is exact by IEEE 754), so that normals have the same bytes everywhere.
#include <capstan/autograd/format.h>
#include <capstan/autograd/random.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#ifdef __FAST_MATH__
#error "random.cpp promises exact bytes: compile it without -ffast-math"
#endif

namespace capstan {
namespace {

// ln x for normal x > 0. With x = 2^k m and m in [√½, √2): ln x = k ln 2 + 2 artanh(s), s = (m − 1)/(m + 1), |s| < 0.172,
// so that s²⁴/25 is below an ulp and twelve terms of the series s + s³/3 + s⁵/5 + … are enough.
double exact_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 1.0 / 25;
  for (int odd = 23; odd >= 3; odd -= 2) series = series * square + 1.0 / odd;
  // ln 2 in two parts; the first one has 20 trailing zero bits, so its product with the exponent is exact.
  constexpr double ln2_high = 0x1.62e42fefp-1, ln2_low = 0x1.473de6af278edp-34;
  return exponent * ln2_high + (2 * s + (2 * s * square * series + exponent * ln2_low));
}

template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
  double value = coefficients[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) value = value * x + coefficients[i];
  return value;
}

// AS 241 (PPND16): rational approximations around 0, for tails, and for far tails.
constexpr std::array<double, 8> centre_p = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                            1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                            3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr std::array<double, 8> centre_q = {1.0,
                                            4.2313330701600911252e1,
                                            6.8718700749205790830e2,
                                            5.3941960214247511077e3,
                                            2.1213794301586595867e4,
                                            3.9307895800092710610e4,
                                            2.8729085735721942674e4,
                                            5.2264952788528545610e3};
constexpr std::array<double, 8> tail_p = {
    1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
    1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> tail_q = {1.0,
                                          2.05319162663775882187e0,
                                          1.67638483018380384940e0,
                                          6.89767334985100004550e-1,
                                          1.48103976427480074590e-1,
                                          1.51986665636164571966e-2,
                                          5.47593808499534494600e-4,
                                          1.05075007164441684324e-9};
constexpr std::array<double, 8> far_p = {
    6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> far_q = {1.0,
                                         5.99832206555887937690e-1,
                                         1.36929880922735805310e-1,
                                         1.48753612908506148525e-2,
                                         7.86869131145613259100e-4,
                                         1.84631831751005468180e-5,
                                         1.42151175831644588870e-7,
                                         2.04426310338993978564e-15};

// |z| with Φ(−|z|) = p for a probability p in (0, ½]; `q` = ½ − p.
double upper_quantile(double p, double q) {
  if (q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(centre_p, r) / polynomial(centre_q, r);
  }
  const double r = std::sqrt(-exact_log(p));
  if (r <= 5.0) return polynomial(tail_p, r - 1.6) / polynomial(tail_q, r - 1.6);
  return polynomial(far_p, r - 5.0) / polynomial(far_q, r - 5.0);
}

// One bit chooses the side and 63 the probability, so that both tails are as fine as the doubles near 0 allow: the
// smallest p is 2^-65, |z| = 9.2.
double normal_from(std::uint64_t bits) {
  const double p = (static_cast<double>(static_cast<std::int64_t>(bits & 0x7FFFFFFFFFFFFFFF)) + 0.5) * 0x1p-64;
  const double z = upper_quantile(p, 0.5 - p);
  return (bits >> 63) != 0 ? z : -z;
}

// Calls use(j, 64 bits of element first + j); consecutive elements share a block.
template <class Use>
void for_each_bits64(Key key, Index count, Index first, Use use) {
  Index j = 0;
  if (first % 2 != 0 && count > 0) use(j++, key.bits64(first));
  for (; j + 1 < count; j += 2) {
    const auto four = key.block(static_cast<std::uint64_t>(first + j) / 2);
    use(j, std::uint64_t{four[0]} << 32 | four[1]);
    use(j + 1, std::uint64_t{four[2]} << 32 | four[3]);
  }
  if (j < count) use(j, key.bits64(first + j));
}

}  // namespace

template <class T>
void fill_uniform(Key key, T* out, Index count, T low, T high, Index first) {
  const T range = high - low;
  if (!(low < high) || !std::isfinite(range))
    fail("uniform: low must be below high and high - low finite; got low {} and high {}", low, high);
  constexpr int digits = std::numeric_limits<T>::digits;
  constexpr T unit = T{1} / static_cast<T>(std::uint64_t{1} << digits);
  const T last = std::nextafter(high, low);  // low + u · range may round up to high
  for_each_bits64(key, count, first, [&](Index j, std::uint64_t bits) {
    const T u = static_cast<T>(bits >> (64 - digits)) * unit;
    const T value = low + u * range;
    out[j] = value < high ? value : last;
  });
}

template <class T>
void fill_normal(Key key, T* out, Index count, T mean, T deviation, Index first) {
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation < 0)
    fail("normal: mean and deviation must be finite, and deviation not negative; got mean {} and deviation {}", mean,
         deviation);
  for_each_bits64(key, count, first, [&](Index j, std::uint64_t bits) {
    out[j] = static_cast<T>(double{mean} + double{deviation} * normal_from(bits));
  });
}

template void fill_uniform(Key, float*, Index, float, float, Index);
template void fill_uniform(Key, double*, Index, double, double, Index);
template void fill_normal(Key, float*, Index, float, float, Index);
template void fill_normal(Key, double*, Index, double, double, Index);

double normal_quantile(double p) {
  if (!(p > 0) || !(p < 1)) fail("normal_quantile: p must be in (0, 1); got {}", p);
  const double q = p - 0.5;
  // Subnormal p has no leading bit for exact_log to find; 2^-1022 stands at z = −37.5.
  if (q < 0) return -upper_quantile(std::fmax(p, 0x1p-1022), -q);
  return upper_quantile(1 - p, q);
}

Keep::Keep(Key key, double p) : key_(key) {
  if (!(p >= 0) || !(p <= 1)) fail("dropout: p must be in [0, 1]; got {}", p);
  threshold_ = static_cast<std::uint64_t>(p * 0x1p32 + 0.5);
}

void Keep::fill(bool* out, Index count, Index first) const {
  Index j = 0;
  for (; j < count && (first + j) % 4 != 0; ++j) out[j] = (*this)(first + j);
  for (; j + 3 < count; j += 4) {
    const auto four = key_.block(static_cast<std::uint64_t>(first + j) / 4);
    for (Index k = 0; k < 4; ++k) out[j + k] = four[static_cast<std::size_t>(k)] >= threshold_;
  }
  for (; j < count; ++j) out[j] = (*this)(first + j);
}

std::uint64_t uniform_int(Key key, Index i, std::uint64_t bound) {
  if (bound == 0) fail("uniform_int: bound must be at least 1; got 0");
  // 2^64 is not a multiple of bound: refusing its first 2^64 mod bound values leaves every residue equally often.
  const std::uint64_t refused = (0 - bound) % bound;
  std::uint64_t bits = key.bits64(i);
  for (std::uint64_t attempt = 0; bits < refused; ++attempt) bits = key.derive(attempt).bits64(i);
  return bits % bound;
}

std::vector<Index> permutation(Key key, Index count) {
  if (count < 0) fail("permutation: count must not be negative; got {}", count);
  std::vector<Index> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), Index{0});
  for (Index i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[uniform_int(key, i, static_cast<std::uint64_t>(i) + 1)]);
  return order;
}

}  // namespace capstan
