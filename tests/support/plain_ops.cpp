#include <capstan/autograd/format.h>

#include <algorithm>
#include <cmath>

#include "support/plain_ops.h"

namespace capstan::test::plain {

namespace {

void require_same(std::string_view op, Inputs in) {
  if (in[0].shape() != in[1].shape() || in[0].dtype() != in[1].dtype())
    fail("{}: a and b must have one shape and dtype; got {} and {}", op, in[0].shape(), in[1].shape());
}

struct Add final : Op {
  static constexpr std::string_view name = "plain_add";
  Types infer(Inputs in) const override {
    require_same(name, in);
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> a = numbers(in[0]);
    const std::vector<double> b = numbers(in[1]);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    write(out[0], a);
  }
  Tensors vjp(const Call& call) const override { return {call.dout(0), call.dout(0)}; }
};

struct Mul final : Op {
  static constexpr std::string_view name = "plain_mul";
  Reads reads(Wanted wanted) const override { return Reads::in(1).when(wanted[0]) | Reads::in(0).when(wanted[1]); }
  Types infer(Inputs in) const override {
    require_same(name, in);
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> a = numbers(in[0]);
    const std::vector<double> b = numbers(in[1]);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
    write(out[0], a);
  }
  Tensors vjp(const Call& call) const override {
    const Tensor& dy = call.dout(0);
    return {call.wants(0) ? mul(dy, call.in(1)) : Tensor(), call.wants(1) ? mul(dy, call.in(0)) : Tensor()};
  }
};

struct Scale final : Op {
  static constexpr std::string_view name = "plain_scale";
  double factor;
  explicit Scale(double factor_) : factor(factor_) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> x = numbers(in[0]);
    for (double& element : x) element *= factor;
    write(out[0], x);
  }
  Tensors vjp(const Call& call) const override { return {scale(call.dout(0), factor)}; }
};

struct Tanh final : Op {
  static constexpr std::string_view name = "plain_tanh";
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> x = numbers(in[0]);
    for (double& element : x) element = std::tanh(element);
    write(out[0], x);
  }
  // dx = (1 − y²) dy
  Tensors vjp(const Call& call) const override {
    const Tensor &y = call.out(0), &dy = call.dout(0);
    return {add(dy, scale(mul(dy, mul(y, y)), -1))};
  }
};

struct Sum final : Op {
  static constexpr std::string_view name = "plain_sum";
  Types infer(Inputs in) const override { return {Type{Shape{}, in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    double sum = 0;
    for (const double element : numbers(in[0])) sum += element;
    write(out[0], {sum});
  }
  Tensors vjp(const Call& call) const override { return {fill(call.dout(0), call.in_shape(0))}; }
};

struct Fill final : Op {
  static constexpr std::string_view name = "plain_fill";
  Shape shape;
  explicit Fill(const Shape& shape_) : shape(shape_) {}
  Types infer(Inputs in) const override {
    if (in[0].rank() != 0) fail("{}: the input must be a scalar; got {}", name, in[0].shape());
    return {Type{shape, in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override { return in[0].layout().broadcast_to(shape); }
  Tensors vjp(const Call& call) const override { return {sum(call.dout(0))}; }
};

struct Matmul final : Op {
  static constexpr std::string_view name = "plain_matmul";
  Reads reads(Wanted wanted) const override { return Reads::in(1).when(wanted[0]) | Reads::in(0).when(wanted[1]); }
  Types infer(Inputs in) const override {
    if (in[0].rank() != 2 || in[1].rank() != 2 || in[0].size(1) != in[1].size(0))
      fail("{}: inner sizes must agree; got a {} and b {}", name, in[0].shape(), in[1].shape());
    return {Type{Shape{in[0].size(0), in[1].size(1)}, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    const std::vector<double> a = numbers(in[0]), b = numbers(in[1]);
    const auto rows = static_cast<std::size_t>(in[0].size(0)), inner = static_cast<std::size_t>(in[0].size(1));
    const auto columns = static_cast<std::size_t>(in[1].size(1));
    std::vector<double> y(rows * columns);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < inner; ++k)
        for (std::size_t j = 0; j < columns; ++j) y[i * columns + j] += a[i * inner + k] * b[k * columns + j];
    write(out[0], y);
  }
  // Y = A B   ⇒   dA = dY Bᵀ, dB = Aᵀ dY
  Tensors vjp(const Call& call) const override {
    const Tensor& dy = call.dout(0);
    return {call.wants(0) ? matmul(dy, transpose(call.in(1))) : Tensor(),
            call.wants(1) ? matmul(transpose(call.in(0)), dy) : Tensor()};
  }
};

struct Transpose final : Op {
  static constexpr std::string_view name = "plain_transpose";
  Types infer(Inputs in) const override {
    if (in[0].rank() != 2) fail("{}: x must have two axes; got {}", name, in[0].shape());
    return {Type{Shape{in[0].size(1), in[0].size(0)}, in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override { return in[0].layout().transposed(0, 1); }
  Tensors vjp(const Call& call) const override { return {transpose(call.dout(0))}; }
};

}  // namespace

std::vector<double> numbers(const Tensor& x) { return x.to_doubles(); }

void write(const View& out, const std::vector<double>& numbers) {
  visit_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::ranges::transform(numbers, out.data<T>(), [](double x) { return static_cast<T>(x); });
  });
}

Tensor add(const Tensor& a, const Tensor& b) { return record(Add{}, a, b)[0]; }
Tensor mul(const Tensor& a, const Tensor& b) { return record(Mul{}, a, b)[0]; }
Tensor scale(const Tensor& x, double factor) { return record(Scale(factor), x)[0]; }
Tensor tanh(const Tensor& x) { return record(Tanh{}, x)[0]; }
Tensor sum(const Tensor& x) { return record(Sum{}, x)[0]; }
Tensor fill(const Tensor& scalar, const Shape& shape) { return record(Fill(shape), scalar)[0]; }
Tensor matmul(const Tensor& a, const Tensor& b) { return record(Matmul{}, a, b)[0]; }
Tensor transpose(const Tensor& x) { return record(Transpose{}, x)[0]; }
Tensor square(const Tensor& x) { return mul(x, x); }

}  // namespace capstan::test::plain
