#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/linear_parts.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

namespace capstan::ops {
namespace {

struct Linear final : Op {
  static constexpr std::string_view name = "linear";

  Reads reads(Wanted wanted) const override { return Reads::in(1).when(wanted[0]) | Reads::in(0).when(wanted[1]); }

  Types infer(Inputs in) const override { return infer_affine(name, in); }
  void eval(Inputs in, Outputs out) const override {
    affine_map(rows_of(in[0]), in[1], in.size() == 3 ? in[2] : Tensor(), out[0]);
  }

  // y = x Wᵀ + b   ⇒   dx = dy W, dW = Σ_rows dyᵀ x, db = Σ_rows dy
  Tensors vjp(const Call& call) const override {
    const Tensor& dy = call.dout(0);
    const Shape weight = call.in_shape(1);
    Tensors gradients;
    gradients.resize(call.inputs());
    if (call.wants(0)) gradients[0] = matmul(dy, call.in(1));
    if (call.wants(1)) {
      const Index rows = call.in_shape(0).drop_back().elements();
      gradients[1] =
          matmul(transpose(reshape(dy, Shape{rows, weight[0]})), reshape(call.in(0), Shape{rows, weight[1]}));
    }
    if (call.inputs() == 3 && call.wants(2)) gradients[2] = sum_to(dy, Shape{weight[0]});
    return gradients;
  }

  // The products read their operands transposed in place, and add to what other uses of x and W have gathered.
  Tensors vjp_kernel(const Call& call) const override {
    const Tensor dy = rows_of(call.dout(0));
    Tensors gradients;
    gradients.resize(call.inputs());
    if (call.wants(0)) gradients[0] = gradient_product(call, 0, dy, false, call.in(1));
    if (call.wants(1)) gradients[1] = gradient_product(call, 1, dy, true, rows_of(call.in(0)));
    if (call.inputs() == 3 && call.wants(2)) gradients[2] = sum_of_rows(dy);
    return gradients;
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!bias.defined()) return ops::apply(ops::Linear{}, x, weight);
  return ops::apply(ops::Linear{}, x, weight, bias);
}

}  // namespace capstan
