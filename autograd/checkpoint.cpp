#include <capstan/autograd/checkpoint.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/node.h>
#include <capstan/autograd/transform.h>

namespace capstan::detail {

namespace {

using List = std::vector<Tensor>;

constexpr std::size_t most_inputs = 64;  // what a rule can read

struct Checkpoint final : Op {
  static constexpr std::string_view name = "checkpoint";
  std::shared_ptr<const Recomputation> f;
  std::size_t inputs;
  std::vector<Type> types;  // of what f returned

  Checkpoint(std::shared_ptr<const Recomputation> f_, std::size_t inputs_, const Tensors& y)
      : f(std::move(f_)), inputs(inputs_) {
    for (const Tensor& result : y) types.push_back({result.shape(), result.dtype()});
  }

  // Not asked: f has computed the outputs.
  Types infer(Inputs) const override { return {}; }
  Reads reads(Wanted) const override {
    Reads all;
    for (std::size_t i = 0; i < inputs; ++i) all = all | Reads::in(static_cast<int>(i));
    return all;
  }
  // y = f(x)   ⇒   dx = the gradient of Σ ⟨dy, f(x)⟩, from a second run of f. Where the inputs are recorded (create_graph),
  // that run and its backward are recorded as well. Else they have a tape of their own, which frees as it walks.
  Tensors vjp(const Call& call) const override {
    Transform transform("checkpoint");
    List x;
    for (int i = 0; i < call.inputs(); ++i) transform.consider(x.emplace_back(call.in(i)));
    for (int i = 0; i < call.inputs(); ++i)
      if (call.wants(i)) x[static_cast<std::size_t>(i)] = transform.watch(call.in(i));
    const List y = f->run(x);
    check_same(y);
    List cotangents;
    for (int o = 0; o < static_cast<int>(y.size()); ++o)
      cotangents.push_back(call.has_dout(o) ? call.dout(o) : Tensor());
    transform.backward(y, cotangents);
    Tensors gradients;
    for (int i = 0; i < call.inputs(); ++i) gradients.push_back(call.wants(i) ? transform.next_gradient() : Tensor());
    return gradients;
  }

 private:
  void check_same(const List& y) const {
    if (y.size() != types.size())
      fail("checkpoint: f must return as many tensors when it runs again; got {} after {}", y.size(), types.size());
    for (std::size_t o = 0; o < y.size(); ++o) {
      const Type& before = types[o];
      if (!y[o].defined()) fail("checkpoint: f must return a value when it runs again; got an empty handle");
      if (y[o].shape() != before.shape || y[o].dtype() != before.dtype)
        fail("checkpoint: f must return the same shapes and dtypes when it runs again; got {} {} after {} {}",
             y[o].dtype(), y[o].shape(), before.dtype, before.shape);
    }
  }
};

}  // namespace

List checkpoint(std::shared_ptr<const Recomputation> f, std::span<const Tensor> inputs) {
  if (inputs.size() > most_inputs)
    fail("checkpoint: x must hold at most {} tensors; got {}; checkpoint its parts one by one", most_inputs,
         inputs.size());
  List x;
  for (const Tensor& input : inputs) {
    if (!input.defined()) fail("checkpoint: x must hold values; got an empty handle; assign a tensor to it first");
    x.push_back(input.detach());
  }
  Tensors y;
  for (Tensor& result : f->run(x)) {
    if (!result.defined()) fail("checkpoint: f must return a value; got an empty handle");
    if (result.recorded())
      fail(
          "checkpoint: f must not depend on recorded tensors that it captures, because their gradients would be lost; "
          "got "
          "a result of shape {} that does; pass them as part of x",
          result.shape());
    y.push_back(std::move(result));
  }
  Small<const Tensor*, 8> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  y = record(Checkpoint(std::move(f), inputs.size(), y), op_info<Checkpoint>, Inputs(pointers.data(), pointers.size()),
             &y);
  return {std::make_move_iterator(y.begin()), std::make_move_iterator(y.end())};
}

}  // namespace capstan::detail
