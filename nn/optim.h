// Optimisers: plain structs of options, with state keyed by parameter name, and gradient clipping. An optimiser walks a
// module and a module of gradients side by side and updates in place. Not for: schedules (set `lr` before a step).
#pragma once

#include <capstan/nn/module.h>
#include <capstan/nn/state_dict.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::nn {

namespace detail {

/// A trained tensor of a module beside its gradient.
struct Pair {
  std::string name;
  Tensor* parameter;
  Tensor gradient;
};

/// An Error unless there are as many gradients as parameters.
void check_count(std::size_t gradients, std::size_t parameters);

template <class Module>
std::vector<Pair> pairs(Module& module, const Module& gradients) {
  std::vector<Pair> list;
  walk(module, [&](const Path& path, auto& leaf) {
    if (Tensor* x = differentiable(leaf)) list.push_back({path.str(), x, {}});
  });
  std::size_t i = 0;
  for_each_tensor(gradients, [&](const Tensor& gradient) {
    if (i < list.size()) list[i].gradient = gradient;
    ++i;
  });
  check_count(i, list.size());
  return list;
}

double clip(const std::vector<Tensor*>& gradients, double max_norm);

}  // namespace detail

/// AdamW (Loshchilov and Hutter 2019, algorithm 2), in PyTorch's order of operations:
///   p ← p (1 − lr · weight_decay);  m ← m + (1 − β₁)(g − m);  v ← β₂ v + (1 − β₂) g²;
///   p ← p − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps).
/// With weight_decay = 0 this is Adam (Kingma and Ba 2015).
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  /// Which parameters are decayed; null: all. See decay_matrices.
  bool (*decays)(std::string_view name, const Tensor& parameter) = nullptr;

  struct State {
    Tensor first_moment, second_moment;
    Index steps = 0;
  };
  std::map<std::string, State> state = {};

  /// One update of every trained tensor. Errors, before anything was changed: a gradient (or the loaded state) does not have
  /// its parameter's shape and dtype.
  template <class Module>
  void step(Module& module, const Module& gradients) {
    update(detail::pairs(module, gradients));
  }
  /// The state as tensors, for a checkpoint: "first_moment.<name>", "second_moment.<name>", "steps.<name>".
  StateDict state_dict() const;
  void load_state(const StateDict& saved);

 private:
  void update(std::vector<detail::Pair> pairs);
};

/// Weight decay on matrices only: biases, gains and other vectors are left alone.
bool decay_matrices(std::string_view name, const Tensor& parameter);

/// Stochastic gradient descent with PyTorch's momentum: g' = g + weight_decay · p; buffer ← momentum · buffer +
/// (1 − dampening) g' (on the first step buffer ← g'); p ← p − lr · (nesterov ? g' + momentum · buffer : buffer).
struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;

  std::map<std::string, Tensor> state = {};

  template <class Module>
  void step(Module& module, const Module& gradients) {
    update(detail::pairs(module, gradients));
  }
  /// "momentum.<name>".
  StateDict state_dict() const;
  void load_state(const StateDict& saved);

 private:
  void update(std::vector<detail::Pair> pairs);
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm being the Euclidean norm over all of them together,
/// computed without over- or underflow; returns the norm before. An Error if it is not finite (then nothing was changed) or
/// max_norm is not positive.
template <class Module>
double clip_gradient_norm(Module& gradients, double max_norm) {
  std::vector<Tensor*> list;
  for_each_tensor(gradients, [&](Tensor& x) { list.push_back(&x); });
  return detail::clip(list, max_norm);
}

}  // namespace capstan::nn
