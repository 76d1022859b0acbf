#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/softmax.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/softmax.h>

namespace capstan::ops {
namespace {

struct Softmax final : Op {
  static constexpr std::string_view name = "softmax";
  int axis;  // in [0, rank)

  explicit Softmax(int axis_) : axis(axis_) {}

  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override {
    require_float(name, "x", in[0]);
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override { kernels::softmax(in[0].view(), axis, out[0]); }

  // J = diag(y) − y yᵀ   ⇒   dx = y ⊙ (dy − Σ_j dy_j y_j)
  Tensors vjp(const Call& call) const override {
    const Tensor &y = call.out(0), &dy = call.dout(0);
    return {y * (dy - sum(dy * y, axis, keep_axes))};
  }
  Tensors vjp_kernel(const Call& call) const override {
    Buffer dx(call.in_shape(0), call.in_dtype(0));
    kernels::softmax_backward(call.out(0).view(), call.dout(0).view(), axis, dx.view());
    return {Tensor(std::move(dx))};
  }
};

struct LogSoftmax final : Op {
  static constexpr std::string_view name = "log_softmax";
  int axis;  // in [0, rank)

  explicit LogSoftmax(int axis_) : axis(axis_) {}

  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override {
    require_float(name, "x", in[0]);
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override { kernels::log_softmax(in[0].view(), axis, out[0]); }

  // J = I − 1 softmax(x)ᵀ and softmax(x) = exp(y)   ⇒   dx = dy − exp(y) Σ_j dy_j
  Tensors vjp(const Call& call) const override {
    const Tensor &y = call.out(0), &dy = call.dout(0);
    return {dy - exp(y) * sum(dy, axis, keep_axes)};
  }
  Tensors vjp_kernel(const Call& call) const override {
    Buffer dx(call.in_shape(0), call.in_dtype(0));
    kernels::log_softmax_backward(call.out(0).view(), call.dout(0).view(), axis, dx.view());
    return {Tensor(std::move(dx))};
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor softmax(const Tensor& x, int axis) {
  ops::require_defined("softmax", "x", x);
  return ops::apply(ops::Softmax(x.shape().axis("softmax", axis)), x);
}

Tensor log_softmax(const Tensor& x, int axis) {
  ops::require_defined("log_softmax", "x", x);
  return ops::apply(ops::LogSoftmax(x.shape().axis("log_softmax", axis)), x);
}

}  // namespace capstan
