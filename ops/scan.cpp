#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/kernels/scan.h>
#include <capstan/ops/require.h>
#include <capstan/ops/scan.h>

namespace capstan::ops {
namespace {

struct Cumsum final : Op {
  static constexpr std::string_view name = "cumsum";
  int axis;  // in [0, rank)
  bool reverse;

  Cumsum(int axis_, bool reverse_) : axis(axis_), reverse(reverse_) {}

  Types infer(Inputs in) const override {
    if (in[0].dtype() == DType::boolean) fail("cumsum: x must be f32, f64 or i32; got bool; cast it first");
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override { kernels::cumsum(in[0].view(), axis, reverse, out[0]); }

  // x_j is in every y_i with i ≥ j   ⇒   dx_j = Σ_{i ≥ j} dy_i
  Tensors vjp(const Call& c) const override { return {apply(Cumsum(axis, !reverse), c.dout(0))}; }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor cumsum(const Tensor& x, int axis, const CumsumOptions& options) {
  ops::require_defined("cumsum", "x", x);
  return ops::apply(ops::Cumsum(x.shape().axis("cumsum", axis), options.reverse), x);
}

}  // namespace capstan
