// An op of one's own: its shape check, its computation and its rule, and the proof that the rule is right.
// The rule is written in ops, so second derivatives exist too. Next: 03_attention_by_hand.
//
// Output:
//   softplus([-1, 0, 2])  [0.31326169 0.69314718 2.12692801]  f64 [3]
//   slope                 [0.26894142 0.5        0.88079708]  f64 [3]
//   right rule: passed, orders 1 and 2, 9 derivatives compared
//   wrong rule: caught
//   softplus: x must be f32 or f64; got i32 [2]
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/op.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/ops.h>

#include <cmath>

using namespace capstan;

// y = log(1 + exp(x)), elementwise; x f32 or f64 of any shape. `slope_error` spoils the rule, to show that the check sees it.
struct Softplus final : Op {
  static constexpr std::string_view name = "softplus";
  double slope_error = 0;

  Types infer(Inputs in) const override {
    if (!is_float(in[0].dtype())) fail("softplus: x must be f32 or f64; got {} {}", in[0].dtype(), in[0].shape());
    return {Type{in[0].shape(), in[0].dtype()}};
  }

  void eval(Inputs in, Outputs out) const override {
    const Tensor x = in[0].dense();  // a view may be strided
    visit_float(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* y = out[0].data<T>();
      for (const T value : x.data<T>()) *y++ = std::max(value, T{0}) + std::log1p(std::exp(-std::abs(value)));
    });
  }

  Reads reads(Wanted) const override { return Reads::in(0); }

  // dy/dx = 1 / (1 + exp(−x))   ⇒   dx = dy / (1 + exp(−x))
  Tensors vjp(const Call& call) const override { return {call.dout(0) * (1 + slope_error) / (1.0 + exp(-call.in(0)))}; }
};

Tensor softplus(const Tensor& x, double slope_error = 0) {
  Softplus op;
  op.slope_error = slope_error;
  return record(op, x)[0];
}

int main() {
  const Tensor x = tensor({-1, 0, 2}, DType::f64);
  fmt::print("softplus([-1, 0, 2])  {}\n", softplus(x));
  fmt::print("slope                 {}\n", grad(x, [](const Tensor& z) { return sum(softplus(z)); }));

  const auto right = gradcheck([](const std::vector<Tensor>& in) { return std::vector{softplus(in[0])}; }, {x});
  fmt::print("right rule: {}, orders 1 and 2, {} derivatives compared\n", right ? "passed" : right.failure,
             right.entries);

  const auto wrong = gradcheck([](const std::vector<Tensor>& in) { return std::vector{softplus(in[0], 0.001)}; }, {x});
  fmt::print("wrong rule: {}\n", wrong ? "passed" : "caught");

  try {
    softplus(tensor({1, 2}, DType::i32));
  } catch (const Error& error) { fmt::print("{}\n", error.what()); }
}
