#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/kernels/gemm.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>

namespace capstan::ops {
namespace {

struct Linear final : Op {
  static constexpr std::string_view name = "linear";

  Reads reads(Wanted wanted) const override { return Reads::in(1).when(wanted[0]) | Reads::in(0).when(wanted[1]); }

  Types infer(Inputs in) const override {
    const Shape &x = in[0].shape(), &weight = in[1].shape();
    require_float(name, "x", in[0]);
    require_same_dtype(name, "x", in[0], "weight", in[1]);
    if (weight.rank() != 2) fail("linear: weight must be [N, K]; got {}", weight);
    if (x.rank() == 0 || x.back() != weight[1])
      fail("linear: x's last axis must be the weight's; got x {} and weight {} [N, K]", x, weight);
    if (in.size() == 3) {
      require_same_dtype(name, "x", in[0], "bias", in[2]);
      if (in[2].shape() != Shape{weight[0]}) fail("linear: bias must be [N] = [{}]; got {}", weight[0], in[2].shape());
    }
    Shape y = x;
    y.set(x.rank() - 1, weight[0]);
    return {Type{y, in[0].dtype()}};
  }

  void eval(Inputs in, Outputs out) const override {
    visit_float(out[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const Layout& weight = in[1].layout();
      kernels::Product<T> product;
      product.m = in[0].shape().drop_back().elements();
      product.k = weight.size(1);
      product.n = weight.size(0);

      // All of x's rows below each other; a copy only if its strides have no such form.
      Tensor dense_x = in[0].rank() == 2 ? Tensor() : rows_of(in[0], product.m);
      const Tensor& x = dense_x.defined() ? dense_x : in[0];
      product.a = x.view().template data<T>();
      product.a_row = x.layout().stride(0);
      product.a_column = x.layout().stride(1);
      product.b = in[1].view().data<T>();
      product.b_row = weight.stride(1);
      product.b_column = weight.stride(0);
      product.c = out[0].data<T>();
      product.c_row = product.n;
      Tensor bias;
      if (in.size() == 3) {
        bias = in[2].dense();
        product.bias = bias.view().template data<T>();
      }
      kernels::gemm(product);
    });
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

 private:
  static Tensor rows_of(const Tensor& x, Index rows) {
    const Shape shape{rows, x.shape().back()};
    if (const auto layout = x.layout().reshaped(shape)) return detail::Access::alias(x, *layout);
    return detail::Access::alias(x.dense(), Layout(shape));
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
