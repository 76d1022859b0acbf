// An op of one's own: its shape check, its computation and its rule, and the proof that the rule is right.
// The rule is written in ops, so second derivatives exist too. Next: 03_attention_by_hand.
//
// Output:
//   squareplus([-1, 0, 2])  [0.61803399 1.         2.41421356]  f64 [3]
//   slope                   [0.2763932  0.5        0.85355339]  f64 [3]
//   right rule: passed, orders 1 and 2, 9 derivatives compared
//   wrong rule: caught
//   squareplus: x must be f32 or f64; got i32 [2]
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/op.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/ops.h>

#include <cmath>

using namespace capstan;

// y = (x + √(x² + 4)) / 2, elementwise (Barron 2021); x f32 or f64 of any shape. `slope_error` spoils the rule, to show that
// the check sees it.
struct Squareplus final : Op {
  static constexpr std::string_view name = "squareplus";
  double slope_error = 0;

  Types infer(Inputs in) const override {
    if (!is_float(in[0].dtype())) fail("squareplus: x must be f32 or f64; got {} {}", in[0].dtype(), in[0].shape());
    return {Type{in[0].shape(), in[0].dtype()}};
  }

  void eval(Inputs in, Outputs out) const override {
    const Tensor x = in[0].dense();  // a view may be strided
    visit_float(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* y = out[0].data<T>();
      for (const T value : x.data<T>()) {
        const T root = std::sqrt(value * value + 4);
        *y++ = value < 0 ? 2 / (root - value) : (value + root) / 2;  // the same number, without cancellation
      }
    });
  }

  Reads reads(Wanted) const override { return Reads::in(0); }

  // dy/dx = (1 + x / √(x² + 4)) / 2   ⇒   dx = dy (1 + x / √(x² + 4)) / 2
  Tensors vjp(const Call& call) const override {
    const Tensor& x = call.in(0);
    return {call.dout(0) * (1.0 + x / sqrt(x * x + 4.0)) * (0.5 + slope_error)};
  }
};

Tensor squareplus(const Tensor& x, double slope_error = 0) {
  Squareplus op;
  op.slope_error = slope_error;
  return record(op, x)[0];
}

int main() {
  const Tensor x = tensor({-1, 0, 2}, DType::f64);
  fmt::print("squareplus([-1, 0, 2])  {}\n", squareplus(x));
  fmt::print("slope                   {}\n", grad(x, [](const Tensor& z) { return sum(squareplus(z)); }));

  const auto right = gradcheck([](const std::vector<Tensor>& in) { return std::vector{squareplus(in[0])}; }, {x});
  fmt::print("right rule: {}, orders 1 and 2, {} derivatives compared\n", right ? "passed" : right.failure,
             right.entries);

  const auto wrong =
      gradcheck([](const std::vector<Tensor>& in) { return std::vector{squareplus(in[0], 0.001)}; }, {x});
  fmt::print("wrong rule: {}\n", wrong ? "passed" : "caught");

  try {
    squareplus(tensor({1, 2}, DType::i32));
  } catch (const Error& error) { fmt::print("{}\n", error.what()); }
}
