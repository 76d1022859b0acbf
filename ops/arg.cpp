#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/arg.h>
#include <capstan/ops/kernels/arg.h>
#include <capstan/ops/require.h>

#include <limits>

namespace capstan::ops {
namespace {

/// What the two share.
struct Arg : Op {
  int axis;  // in [0, rank)
  bool keep;

  Arg(int axis_, bool keep_) : axis(axis_), keep(keep_) {}

  Types check(std::string_view name, Inputs in) const {
    const Shape& x = in[0].shape();
    if (in[0].dtype() == DType::boolean) fail("{}: x must be f32, f64 or i32; got bool; cast it first", name);
    Shape y;
    for (int i = 0; i < x.rank(); ++i)
      if (i != axis || keep) y.push_back(i == axis ? 1 : x[i]);
    constexpr Index most = std::numeric_limits<std::int32_t>::max();
    if ((x[axis] == 0 && y.elements() > 0) || x[axis] > most)
      fail("{}: the axis must have 1 to 2^31 - 1 elements; got axis {} of x {}", name, axis, x);
    return {Type{y, DType::i32}};
  }
  Tensors vjp(const Call& c) const override { return no_gradient(c, "a place changes in jumps only"); }
};

struct ArgMax final : Arg {
  static constexpr std::string_view name = "argmax";
  using Arg::Arg;
  Types infer(Inputs in) const override { return check(name, in); }
  void eval(Inputs in, Outputs out) const override {
    kernels::arg(kernels::Extreme::largest, in[0].view(), axis, out[0]);
  }
};
struct ArgMin final : Arg {
  static constexpr std::string_view name = "argmin";
  using Arg::Arg;
  Types infer(Inputs in) const override { return check(name, in); }
  void eval(Inputs in, Outputs out) const override {
    kernels::arg(kernels::Extreme::smallest, in[0].view(), axis, out[0]);
  }
};

template <class O>
Tensor arg(const Tensor& x, int axis, bool keep) {
  require_defined(O::name, "x", x);
  return apply(O(x.shape().axis(O::name.data(), axis), keep), x);
}

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor argmax(const Tensor& x, int axis, bool keep) { return ops::arg<ops::ArgMax>(x, axis, keep); }
Tensor argmin(const Tensor& x, int axis, bool keep) { return ops::arg<ops::ArgMin>(x, axis, keep); }

}  // namespace capstan
