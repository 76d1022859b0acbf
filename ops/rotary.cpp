#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/kernels/rotary.h>
#include <capstan/ops/require.h>
#include <capstan/ops/rotary.h>

#include <cmath>

namespace capstan::ops {
namespace {

/// Inputs: x, and positions unless they count from `start`.
struct Rotary final : Op {
  static constexpr std::string_view name = "rotary";
  kernels::Pairs pairs;
  Index start;
  double base;
  bool has_positions;
  bool inverse = false;

  Rotary(kernels::Pairs pairs_, Index start_, double base_, bool has_positions_)
      : pairs(pairs_), start(start_), base(base_), has_positions(has_positions_) {}

  Reads reads(Wanted) const override { return Reads::in(1).when(has_positions); }
  Types infer(Inputs in) const override {
    const Shape& x = in[0].shape();
    require_float(name, "x", in[0]);
    if (x.rank() < 2 || x.back() % 2 != 0) fail("rotary: x must be [..., T, D] with an even D; got {}", x);
    if (!(base > 0) || !std::isfinite(base)) fail("rotary: base must be positive and finite; got {}", base);
    if (has_positions && (in[1].dtype() != DType::i32 || in[1].shape() != Shape{x.back(1)}))
      fail("rotary: positions must be i32 [T] = [{}]; got {} {}", x.back(1), in[1].dtype(), in[1].shape());
    return {Type{x, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    kernels::rotary(in[0].view(), pairs, has_positions ? in[1].view() : ConstView{}, start, base, inverse, out[0]);
  }
  // A rotation R is orthogonal: dx = Rᵀ dy = R⁻¹ dy.
  Tensors vjp(const Call& call) const override {
    Rotary back = *this;
    back.inverse = !inverse;
    if (!has_positions) return {apply(back, call.dout(0))};
    return {apply(back, call.dout(0), call.in(1)), Tensor()};
  }
};

Tensor rotary(const Tensor& x, kernels::Pairs pairs, const RotaryOptions& options) {
  return apply(Rotary(pairs, options.start, options.base, false), x);
}
Tensor rotary(const Tensor& x, kernels::Pairs pairs, const Tensor& positions, double base) {
  return apply(Rotary(pairs, 0, base, true), x, positions);
}

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor rotary_half_split(const Tensor& x, const RotaryOptions& options) {
  return ops::rotary(x, kernels::Pairs::half_split, options);
}
Tensor rotary_half_split(const Tensor& x, const Tensor& positions, double base) {
  return ops::rotary(x, kernels::Pairs::half_split, positions, base);
}

Tensor rotary_adjacent_pairs(const Tensor& x, const RotaryOptions& options) {
  return ops::rotary(x, kernels::Pairs::adjacent, options);
}
Tensor rotary_adjacent_pairs(const Tensor& x, const Tensor& positions, double base) {
  return ops::rotary(x, kernels::Pairs::adjacent, positions, base);
}

}  // namespace capstan
