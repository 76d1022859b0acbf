// A gradient: watch what you want gradients for, compute, ask. Next: 02_custom_op.
//
// Output:
//   loss  0.0625  f32 []
//   dw    [[-1. ]
//    [-1.5]]  f32 [2, 1]
//   db    [-0.5]  f32 [1]
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>

using namespace capstan;

int main() {
  const Tensor x = tensor({{1, 2}, {3, 4}});  // two examples of two features
  const Tensor target = tensor({{-1}, {-2}});

  Tape tape;  // records what descends from watched tensors
  const Tensor w = tape.watch(tensor({{0.5}, {-1}}));
  const Tensor b = tape.watch(tensor({0.25}));

  const Tensor error = matmul(x, w) + b - target;  // [2, 1]
  const Tensor loss = mean(error * error);

  const Gradients gradients = tape.backward(loss);
  fmt::print("loss  {}\ndw    {}\ndb    {}\n", loss, gradients.of(w), gradients.of(b));
}
