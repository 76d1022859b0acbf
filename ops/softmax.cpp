#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/softmax.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include <limits>

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
    Buffer dx = call.new_gradient(0);
    kernels::softmax_backward(call.out(0).view(), call.dout(0).view(), axis, dx.view());
    return {std::move(dx)};
  }
};

/// Inputs: x and keep.
struct MaskedSoftmax final : Op {
  static constexpr std::string_view name = "masked_softmax";
  int axis;  // in [0, rank)

  explicit MaskedSoftmax(int axis_) : axis(axis_) {}

  Reads reads(Wanted) const override { return Reads::in(1) | Reads::out(0); }
  Types infer(Inputs in) const override {
    require_float(name, "x", in[0]);
    require_dtype(name, "keep", in[1], DType::boolean);
    const Shape &x = in[0].shape(), &keep = in[1].shape();
    if (x != keep && !stretches(keep, x))
      fail("masked_softmax: keep must broadcast to x's shape; got keep {} and x {}", keep, x);
    return {Type{x, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    const Layout keep = in[1].layout().broadcast_to(in[0].shape());
    kernels::masked_softmax(in[0].view(), {in[1].view().bytes, &keep, DType::boolean}, axis, out[0]);
  }

  // The rule of softmax among the elements that are kept: selections, not products with 0, since dy may be NaN elsewhere.
  Tensors vjp(const Call& call) const override {
    const Tensor &keep = call.in(1), &y = call.out(0), &dy = call.dout(0);
    const Tensor dot = sum(where(keep, dy * y, 0.0), axis, keep_axes);
    return {where(keep, y * (dy - dot), 0.0), Tensor()};
  }
  Tensors vjp_kernel(const Call& call) const override {
    Buffer dx = call.new_gradient(0);
    const Layout keep = call.in(1).layout().broadcast_to(dx.shape());
    kernels::masked_softmax_backward(call.out(0).view(), {call.in(1).view().bytes, &keep, DType::boolean},
                                     call.dout(0).view(), axis, dx.view());
    return {std::move(dx), Tensor()};
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
    Buffer dx = call.new_gradient(0);
    kernels::log_softmax_backward(call.out(0).view(), call.dout(0).view(), axis, dx.view());
    return {std::move(dx)};
  }
};

struct LogSumExp final : Op {
  static constexpr std::string_view name = "logsumexp";
  int axis;  // in [0, rank)
  bool keep;

  LogSumExp(int axis_, bool keep_) : axis(axis_), keep(keep_) {}

  Reads reads(Wanted) const override { return Reads::in(0) | Reads::out(0); }
  Types infer(Inputs in) const override {
    require_float(name, "x", in[0]);
    Shape y;
    for (int i = 0; i < in[0].rank(); ++i)
      if (i != axis || keep) y.push_back(i == axis ? 1 : in[0].shape()[i]);
    return {Type{y, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override { kernels::logsumexp(in[0].view(), axis, out[0]); }

  /// With the axis in its place.
  Tensor aligned(const Tensor& y, Shape x) const {
    x.set(axis, 1);
    return reshape(y, x);
  }
  // ∂y/∂x_j = exp(x_j) / Σ exp(x)   ⇒   dx = dy ⊙ softmax(x); where y is −∞, softmax has no value and dx is 0.
  Tensors vjp(const Call& call) const override {
    const Tensor& x = call.in(0);
    const Tensor dead = equal(aligned(call.out(0), x.shape()), -std::numeric_limits<double>::infinity());
    const Tensor weights = softmax(where(dead, 0.0, x), axis);
    return {where(dead, 0.0, aligned(call.dout(0), x.shape()) * weights)};
  }
  Tensors vjp_kernel(const Call& call) const override {
    const Tensor& x = call.in(0);
    Buffer dx(x.shape(), x.dtype());
    kernels::logsumexp_backward(x.view(), aligned(call.out(0), x.shape()).view(),
                                aligned(call.dout(0), x.shape()).view(), axis, dx.view());
    return {std::move(dx)};
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor softmax(const Tensor& x, int axis) {
  ops::require_defined("softmax", "x", x);
  return ops::apply(ops::Softmax(x.shape().axis("softmax", axis)), x);
}

Tensor masked_softmax(const Tensor& x, const Tensor& keep, int axis) {
  ops::require_defined("masked_softmax", "x", x);
  return ops::apply(ops::MaskedSoftmax(x.shape().axis("masked_softmax", axis)), x, keep);
}

Tensor log_softmax(const Tensor& x, int axis) {
  ops::require_defined("log_softmax", "x", x);
  return ops::apply(ops::LogSoftmax(x.shape().axis("log_softmax", axis)), x);
}

Tensor logsumexp(const Tensor& x, int axis, bool keep) {
  ops::require_defined("logsumexp", "x", x);
  return ops::apply(ops::LogSumExp(x.shape().axis("logsumexp", axis), keep), x);
}

}  // namespace capstan
