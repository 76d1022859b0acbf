// Recomputation: a function that is run again in backward instead of keeping what lies inside it (Chen et al. 2016).
// Not for: files of weights (nn/io/checkpoint.h).
#pragma once

#include <capstan/autograd/fields.h>
#include <capstan/autograd/tensor.h>

#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace capstan {

namespace detail {

/// What the op keeps of f: a function of the tensors in x.
class Recomputation {
 public:
  virtual ~Recomputation() = default;
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs) const = 0;
};

template <class S, class F>
class RecomputationOf final : public Recomputation {
 public:
  /// x without its tensors, which the tape keeps.
  RecomputationOf(const S& x, F f) : rest_(x), f_(std::move(f)) {
    for_each_tensor(rest_, [](Tensor& input) { input = Tensor(); });
  }
  std::vector<Tensor> run(std::span<const Tensor> inputs) const override {
    S x = rest_;
    auto next = inputs.begin();
    for_each_tensor(x, [&](Tensor& input) { input = *next++; });
    if constexpr (std::is_convertible_v<decltype(f_(std::as_const(x))), Tensor>)
      return {f_(std::as_const(x))};
    else
      return f_(std::as_const(x));
  }

 private:
  S rest_;
  F f_;
};

std::vector<Tensor> checkpoint(std::shared_ptr<const Recomputation> f, std::span<const Tensor> inputs);

}  // namespace detail

/// f(x), of which only x is kept until backward, which runs f once more: memory for time (Chen et al. 2016, "Training deep
/// nets with sublinear memory cost"). x is a tensor, a vector of tensors, a module, or a struct that lists them as fields; f
/// returns a tensor or a vector of tensors. The gradients have the bits of f(x)'s own, unless a tensor of x is used elsewhere
/// too: its gradients then gather in another order. All orders of derivative exist, and checkpoints nest.
///
/// f must compute the same again: random ops take a Key that is fixed outside (autograd/random.h). A copy of f is kept: what it
/// captures by reference must outlive backward. What it captures is a constant, so everything that has a gradient belongs in x.
/// Errors: f's result depends on a captured tensor that is recorded; x holds more than 64 tensors or an empty handle; in
/// backward, f's result has another shape or dtype than before.
template <class S, class F>
auto checkpoint(const S& x, F&& f) {
  std::vector<Tensor> inputs;
  for_each_tensor(x, [&](const Tensor& input) { inputs.push_back(input); });
  using Function = std::decay_t<F>;
  std::vector<Tensor> y = detail::checkpoint(
      std::make_shared<const detail::RecomputationOf<S, Function>>(x, Function(std::forward<F>(f))), inputs);
  if constexpr (std::is_convertible_v<decltype(f(x)), Tensor>)
    return Tensor(std::move(y[0]));
  else
    return y;
}

}  // namespace capstan
