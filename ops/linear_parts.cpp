#include <capstan/autograd/format.h>
#include <capstan/ops/gradient_sum.h>
#include <capstan/ops/kernels/gemm.h>
#include <capstan/ops/kernels/reduce.h>
#include <capstan/ops/linear_parts.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>

namespace capstan::ops {

namespace {

template <class T>
kernels::Product<T> product_of(const ConstView& a, const ConstView& b, const View& c) {
  kernels::Product<T> product;
  product.m = a.layout->size(0);
  product.k = a.layout->size(1);
  product.n = b.layout->size(1);
  product.a = a.data<T>();
  product.a_row = a.layout->stride(0);
  product.a_column = a.layout->stride(1);
  product.b = b.data<T>();
  product.b_row = b.layout->stride(0);
  product.b_column = b.layout->stride(1);
  product.c = c.data<T>();
  product.c_row = product.n;
  return product;
}

}  // namespace

Types infer_affine(std::string_view op, Inputs in) {
  const Shape &x = in[0].shape(), &weight = in[1].shape();
  require_float(op, "x", in[0]);
  require_same_dtype(op, "x", in[0], "weight", in[1]);
  if (weight.rank() != 2) fail("{}: weight must be [N, K]; got {}", op, weight);
  if (x.rank() == 0 || x.back() != weight[1])
    fail("{}: x's last axis must be the weight's; got x {} and weight {} [N, K]", op, x, weight);
  if (in.size() == 3) {
    require_same_dtype(op, "x", in[0], "bias", in[2]);
    if (in[2].shape() != Shape{weight[0]}) fail("{}: bias must be [N] = [{}]; got {}", op, weight[0], in[2].shape());
  }
  Shape y = x;
  y.set(x.rank() - 1, weight[0]);
  return {Type{y, in[0].dtype()}};
}

Tensor rows_of(const Tensor& x) {
  const Shape shape{x.shape().drop_back().elements(), x.shape().back()};
  if (const auto layout = x.layout().reshaped(shape)) return detail::Access::alias(x, *layout);
  return detail::Access::alias(x.dense(), Layout(shape));
}

void affine_map(const Tensor& x, const Tensor& weight, const Tensor& bias, const View& y) {
  const Layout transposed = weight.layout().transposed(0, 1);
  const Tensor dense = bias.defined() ? bias.dense() : Tensor();
  visit_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    kernels::Product<T> product = product_of<T>(x.view(), {weight.view().bytes, &transposed, weight.dtype()}, y);
    if (dense.defined()) product.bias = dense.view().template data<T>();
    kernels::gemm(product);
  });
}

void product(const Tensor& a, bool a_transposed, const Tensor& b, bool accumulate, const View& c) {
  const Layout transposed = a.layout().transposed(0, 1);
  const ConstView left{a.view().bytes, a_transposed ? &transposed : &a.layout(), a.dtype()};
  visit_float(a.dtype(), [&](auto zero) {
    kernels::Product<decltype(zero)> product = product_of<decltype(zero)>(left, b.view(), c);
    product.accumulate = accumulate;
    kernels::gemm(product);
  });
}

Tensor gradient_product(const Call& call, int input, const Tensor& a, bool a_transposed, const Tensor& b) {
  GradientSum sum(call, input);
  product(a, a_transposed, b, sum.adds, sum.buffer.view());
  return std::move(sum.buffer);
}

Tensors parameter_gradients(const Call& call, const Tensor& h) {
  const Tensor& dy = call.dout(0);
  const Shape weight = call.in_shape(1);
  Tensors gradients;
  gradients.resize(call.inputs());
  if (call.wants(1)) {
    const Index rows = call.in_shape(0).drop_back().elements();
    const Tensor dy_rows = reshape(dy, Shape{rows, weight[0]}), h_rows = reshape(h, Shape{rows, weight[1]});
    gradients[1] = matmul(transpose(dy_rows), h_rows);
  }
  if (call.inputs() == 3 && call.wants(2)) gradients[2] = sum_to(dy, Shape{weight[0]});
  return gradients;
}

// The product reads dy transposed in place, and adds to what other uses of W have gathered.
Tensors parameter_gradients_by_kernel(const Call& call, const Tensor& h) {
  const Tensor dy = rows_of(call.dout(0));
  Tensors gradients;
  gradients.resize(call.inputs());
  if (call.wants(1)) gradients[1] = gradient_product(call, 1, dy, true, rows_of(h));
  if (call.inputs() == 3 && call.wants(2)) {
    Buffer sum(Shape{dy.shape().back()}, dy.dtype());
    kernels::sum_to(dy.view(), sum.view());
    gradients[2] = std::move(sum);
  }
  return gradients;
}

}  // namespace capstan::ops
