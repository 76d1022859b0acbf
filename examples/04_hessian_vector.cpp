// Second derivatives: the Hessian times a vector, without ever building the Hessian. The gradient is itself recorded, so it
// can be differentiated again. f is Rosenbrock's valley, f(x) = (1 − x₀)² + 100 (x₁ − x₀²)².
//
// Output:
//   f          229.  f64 []
//   gradient   [596. 300.]  f64 [2]
//   by hvp     [1002.  800.]  f64 [2]
//   by nesting [1002.  800.]  f64 [2]
//   on a tape  [1002.  800.]  f64 [2]
//   by hand    [1002.  800.]  f64 [2]
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/ops.h>

using namespace capstan;

Tensor rosenbrock(const Tensor& x) {
  const Tensor x0 = slice(x, 0, 0, 1), x1 = slice(x, 0, 1, 2);
  const Tensor steep = x1 - x0 * x0, flat = 1.0 - x0;
  return sum(flat * flat + 100.0 * steep * steep);
}

int main() {
  const Tensor x = tensor({-1, 2.5}, DType::f64), v = tensor({1, 2}, DType::f64);

  const auto [value, gradient] = value_and_grad(x, rosenbrock);
  fmt::print("f          {}\ngradient   {}\n", value, gradient);

  fmt::print("by hvp     {}\n", hvp(x, rosenbrock, v));

  // What it does: Hv = ∂/∂x ⟨∂f/∂x, v⟩, a gradient inside a gradient.
  const Tensor nested = grad(x, [&](const Tensor& z) { return sum(grad(z, rosenbrock) * v); });
  fmt::print("by nesting {}\n", nested);

  // The same with a tape in hand: record the backward pass, then run backward on what it gave.
  Tape tape;
  const Tensor z = tape.watch(x);
  const Gradients first = tape.backward(rosenbrock(z), {.create_graph = true});
  const Gradients second = tape.backward(sum(first.of(z) * v));
  fmt::print("on a tape  {}\n", second.of(z));

  // H = [[1200 x₀² − 400 x₁ + 2, −400 x₀], [−400 x₀, 200]]
  const Tensor by_hand = tensor({{1200 * 1 - 400 * 2.5 + 2, 400}, {400, 200}}, DType::f64);
  fmt::print("by hand    {}\n", matmul(by_hand, v));
}
