// Chooses the file that serves a unary op; the i32 forms, which the compiler vectorises by itself.
#include <capstan/autograd/format.h>
#include <capstan/ops/kernels/unary_families.h>

#include <algorithm>

namespace capstan::kernels {
namespace {

struct Family {
  UnaryKernel kernel;
  Index grain;
};

Family family_of(Unary op) {
  switch (op) {
    case Unary::neg:
    case Unary::abs:
    case Unary::sign:
    case Unary::square:
    case Unary::reciprocal:
    case Unary::sqrt:
    case Unary::rsqrt:
    case Unary::relu: return {unary_simple(), cheap_grain};
    case Unary::exp:
    case Unary::log:
    case Unary::tanh:
    case Unary::sigmoid:
    case Unary::sigmoid_slope:
    case Unary::softplus:
    case Unary::silu:
    case Unary::silu_slope: return {unary_exp(), costly_grain};
    case Unary::gelu_tanh:
    case Unary::gelu_tanh_slope: return {unary_gelu(), costly_grain};
    case Unary::sin:
    case Unary::cos: return {unary_trig(), costly_grain};
    case Unary::erf:
    case Unary::erfc:
    case Unary::gelu_erf:
    case Unary::gelu_erf_slope: break;
  }
  return {unary_libm(), libm_grain};
}

template <class F>
void integers(ConstView x, View y, F f) {
  for_pieces(Region::elementwise, y, {x}, cheap_grain, [&](const Piece& piece) {
    const std::int32_t* from = piece.input<std::int32_t>(0);
    const Index step = piece.scalar[0] ? 0 : 1;
    for (Index i = 0; i < piece.count; ++i) piece.output<std::int32_t>()[i] = f(from[i * step]);
  });
}

/// Unsigned arithmetic wraps around where signed overflow would be undefined.
std::int32_t wrapped(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

void unary_i32(Unary op, ConstView x, View y) {
  switch (op) {
    case Unary::neg: return integers(x, y, [](std::int32_t a) { return wrapped(0U - static_cast<std::uint32_t>(a)); });
    case Unary::abs:
      return integers(x, y, [](std::int32_t a) {
        return wrapped(a < 0 ? 0U - static_cast<std::uint32_t>(a) : static_cast<std::uint32_t>(a));
      });
    case Unary::sign: return integers(x, y, [](std::int32_t a) { return (a > 0) - (a < 0); });
    case Unary::square:
      return integers(
          x, y, [](std::int32_t a) { return wrapped(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(a)); });
    case Unary::relu: return integers(x, y, [](std::int32_t a) { return a > 0 ? a : 0; });
    default: break;
  }
  fail("unary: this function must be given f32 or f64; got {}", x.dtype);
}

}  // namespace

void unary(Unary op, ConstView x, View y) {
  if (!is_float(x.dtype)) return unary_i32(op, x, y);
  const Family family = family_of(op);
  for_pieces(Region::elementwise, y, {x}, family.grain, [&](const Piece& piece) { family.kernel(op, x.dtype, piece); });
}

void unary_times(Unary op, ConstView x, ConstView a, View y) {
  const Family family = family_of(op);
  visit_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_pieces(Region::elementwise, y, {x, a}, family.grain, [&](const Piece& piece) {
      constexpr Index most = 1024;  // values of f stay in the first-level cache
      alignas(64) T values[most];
      const Index step_x = piece.scalar[0] ? 0 : 1, step_a = piece.scalar[1] ? 0 : 1;
      for (Index begin = 0; begin < piece.count; begin += most) {
        Piece part;
        part.count = std::min(most, piece.count - begin);
        part.out = values;
        part.in[0] = piece.input<T>(0) + begin * step_x;
        part.scalar[0] = piece.scalar[0];
        family.kernel(op, x.dtype, part);
        const T* factors = piece.input<T>(1) + begin * step_a;
        if (piece.scalar[1]) {
          for (Index i = 0; i < part.count; ++i) values[i] *= factors[0];
        } else {
          for (Index i = 0; i < part.count; ++i) values[i] *= factors[i];
        }
        std::copy_n(values, part.count, piece.output<T>() + begin);
      }
    });
  });
}

}  // namespace capstan::kernels
