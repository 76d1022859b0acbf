// erf, erfc and the exact GELU through libm: Highway 1.0.3 has no erf. f32 GELUs are computed in f64, for the tail's sake.
#include <capstan/ops/kernels/unary_families.h>

#include <algorithm>
#include <cmath>

namespace capstan::kernels {
namespace {

constexpr double root_half = 0.70710678118654752440;        // 1 / √2
constexpr double density_at_zero = 0.39894228040143267794;  // 1 / √(2π)
constexpr double saturated = 1e4;  // beyond it the GELU is 0 or x exactly; a finite factor keeps 0 · ∞ away

double normal_distribution(double x) { return 0.5 * std::erfc(-x * root_half); }

/// x Φ(x) = x/2 · erfc(−x/√2): no cancellation in the negative tail.
double gelu(double x) { return (x < -saturated ? -saturated : x) * normal_distribution(x); }

/// Φ(x) + x φ(x)
double gelu_slope(double x) {
  const double bounded = std::isnan(x) ? x : std::clamp(x, -saturated, saturated);
  return normal_distribution(bounded) + bounded * density_at_zero * std::exp(-0.5 * bounded * bounded);
}

template <class T, class F>
void map(const Piece& piece, F f) {
  const T* x = piece.input<T>(0);
  const Index step = piece.scalar[0] ? 0 : 1;
  for (Index i = 0; i < piece.count; ++i) piece.output<T>()[i] = static_cast<T>(f(x[i * step]));
}

template <class T>
void kernel_of(Unary op, const Piece& piece) {
  switch (op) {
    case Unary::erf: return map<T>(piece, [](T x) { return std::erf(x); });
    case Unary::erfc: return map<T>(piece, [](T x) { return std::erfc(x); });
    case Unary::gelu_erf: return map<T>(piece, [](T x) { return gelu(static_cast<double>(x)); });
    default: return map<T>(piece, [](T x) { return gelu_slope(static_cast<double>(x)); });
  }
}

void kernel(Unary op, DType dtype, const Piece& piece) {
  dtype == DType::f32 ? kernel_of<float>(op, piece) : kernel_of<double>(op, piece);
}

}  // namespace

UnaryKernel unary_libm() { return kernel; }

}  // namespace capstan::kernels
