// Optimisers: plain structs of options, with state keyed by parameter name, and gradient clipping. An optimiser walks a
// module and a module of gradients side by side and updates in place. Not for: schedules (schedule.h; set `lr` before a step).
#pragma once

#include <capstan/nn/optim_state.h>

namespace capstan::nn {

// What every optimiser has:
//   step(module, gradients)   one update of every trained tensor. Errors, before anything was changed: a gradient or the loaded
//                             state does not have its parameter's shape and dtype; two parameters of one name; an option
//                             out of its range: rates, eps, momentum and decay are finite and not negative, betas and
//                             alpha in [0, 1).
//   state_dict()              the state as tensors "<buffer>.<parameter>", for a checkpoint; the buffers' names are below.
//   load_state(saved)         the way back. Errors: names that are not the optimiser's, with its options; incomplete state.

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), in PyTorch's order of operations:
///   p ← p (1 − lr · weight_decay);  m ← m + (1 − β₁)(g − m);  v ← β₂ v + (1 − β₂) g²;
///   p ← p − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps).
/// With amsgrad (Reddi et al. 2018) the largest v until now stands in place of v in the last line.
/// State: "first_moment", "second_moment", "steps", with amsgrad "largest_second_moment".
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  /// bool (std::string_view name, const Tensor& parameter): which parameters are decayed; null: all. See decay_matrices.
  detail::Decays decays = nullptr;

  OptimizerState state = {};

  template <class Module>
  void step(Module& module, const Module& gradients) {
    update(detail::pairs("AdamW", module, gradients));
  }
  StateDict state_dict() const;
  void load_state(const StateDict& saved);

 private:
  void update(const std::vector<detail::Pair>& pairs);
};

/// Adam (Kingma and Ba 2015); as AdamW, but weight decay is part of the gradient, g ← g + weight_decay · p (an L2 penalty), in
/// place of the first line.
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  /// bool (std::string_view name, const Tensor& parameter): which parameters are decayed; null: all. See decay_matrices.
  detail::Decays decays = nullptr;

  OptimizerState state = {};

  template <class Module>
  void step(Module& module, const Module& gradients) {
    update(detail::pairs("Adam", module, gradients));
  }
  StateDict state_dict() const;
  void load_state(const StateDict& saved);

 private:
  void update(const std::vector<detail::Pair>& pairs);
};

/// Weight decay on matrices only: biases, gains and other vectors are left alone.
bool decay_matrices(std::string_view name, const Tensor& parameter);

/// Stochastic gradient descent with PyTorch's momentum: g' = g + weight_decay · p; buffer ← momentum · buffer +
/// (1 − dampening) g' (on the first step buffer ← g'); p ← p − lr · (nesterov ? g' + momentum · buffer : buffer).
/// State: "momentum"; none without momentum.
struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;

  OptimizerState state = {};

  template <class Module>
  void step(Module& module, const Module& gradients) {
    update(detail::pairs("Sgd", module, gradients));
  }
  StateDict state_dict() const;
  void load_state(const StateDict& saved);

 private:
  void update(const std::vector<detail::Pair>& pairs);
};

/// RMSProp (Tieleman and Hinton 2012, lecture 6.5), in PyTorch's order of operations: g ← g + weight_decay · p;
///   v ← alpha · v + (1 − alpha) g²;  centered (Graves 2013): a ← a + (1 − alpha)(g − a);
///   d = g / (√(centered ? v − a² : v) + eps);  with momentum: buffer ← momentum · buffer + d, d = buffer;  p ← p − lr · d.
/// State: "square_average", with momentum "momentum", centered "average".
struct RmsProp {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;

  OptimizerState state = {};

  template <class Module>
  void step(Module& module, const Module& gradients) {
    update(detail::pairs("RmsProp", module, gradients));
  }
  StateDict state_dict() const;
  void load_state(const StateDict& saved);

 private:
  void update(const std::vector<detail::Pair>& pairs);
};

/// Lion (Chen et al. 2023, algorithm 2):  p ← p (1 − lr · weight_decay) − lr · sign(β₁ m + (1 − β₁) g);
/// m ← β₂ m + (1 − β₂) g.  sign(0) = 0. Every element moves by lr: about a tenth of AdamW's rate is usual.
/// State: "momentum".
struct Lion {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  /// bool (std::string_view name, const Tensor& parameter): which parameters are decayed; null: all. See decay_matrices.
  detail::Decays decays = nullptr;

  OptimizerState state = {};

  template <class Module>
  void step(Module& module, const Module& gradients) {
    update(detail::pairs("Lion", module, gradients));
  }
  StateDict state_dict() const;
  void load_state(const StateDict& saved);

 private:
  void update(const std::vector<detail::Pair>& pairs);
};

namespace detail {
double clip(const std::vector<Tensor*>& gradients, double max_norm);
}  // namespace detail

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
