#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/dropout.h>
#include <capstan/ops/kernels/dropout.h>
#include <capstan/ops/require.h>

namespace capstan::ops {
namespace {

struct DropoutOp final : Op {
  static constexpr std::string_view name = "dropout";
  double p;
  Key key;

  DropoutOp(double p_, Key key_) : p(p_), key(key_) {}

  Types infer(Inputs in) const override {
    require_float(name, "x", in[0]);
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    kernels::dropout(in[0].view(), Keep(key, p), 1 / (1 - p), out[0]);
  }
  // Linear, and a diagonal matrix: its own transpose.
  Tensors vjp(const Call& call) const override { return {dropout(call.dout(0), p, key)}; }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor dropout(const Tensor& x, double p, Key key) {
  ops::require_defined("dropout", "x", x);
  ops::require_float("dropout", "x", x);
  if (!(p >= 0 && p < 1)) fail("dropout: p must be in [0, 1); got {}", p);
  return p == 0 ? x : ops::apply(ops::DropoutOp(p, key), x);
}

}  // namespace capstan
