// The optimisers: each is the layout of its state and its formula, which is a kernel (ops/kernels/optimizer.h).
#include <capstan/nn/optim.h>
#include <capstan/ops/kernels/optimizer.h>

namespace capstan::nn {

bool decay_matrices(std::string_view, const Tensor& parameter) { return parameter.rank() >= 2; }

namespace {

// ---- layouts: what each optimiser keeps -------------------------------------------------------------------------------

detail::StateLayout adam_layout(const char* optimizer, bool amsgrad) {
  detail::StateLayout layout{optimizer, {"first_moment", "second_moment"}};
  if (amsgrad) layout.buffers.push_back("largest_second_moment");
  return layout;
}
detail::StateLayout layout_of(const AdamW& o) { return adam_layout("AdamW", o.amsgrad); }
detail::StateLayout layout_of(const Adam& o) { return adam_layout("Adam", o.amsgrad); }

detail::StateLayout layout_of(const Sgd& o) {
  return {"Sgd", o.momentum != 0 ? std::vector{"momentum"} : std::vector<const char*>(), false};
}

detail::StateLayout layout_of(const RmsProp& o) {
  detail::StateLayout layout{"RmsProp", {"square_average"}, false};
  if (o.centered) layout.buffers.push_back("average");
  if (o.momentum != 0) layout.buffers.push_back("momentum");
  return layout;
}

detail::StateLayout layout_of(const Lion&) { return {"Lion", {"momentum"}, false}; }

// ---- formulas ---------------------------------------------------------------------------------------------------------

template <class Optimizer>
void update_adam(Optimizer& o, const std::vector<detail::Pair>& pairs, bool decay_in_gradient) {
  detail::check_options(layout_of(o).optimizer, {{"lr", o.lr}, {"eps", o.eps}, {"weight_decay", o.weight_decay}},
                        {{"beta1", o.beta1}, {"beta2", o.beta2}});
  const auto formula = [&]<class T>(const detail::Memory<T>& memory, Index step, bool decayed) {
    kernels::adam<T>(memory.n, memory.parameter, memory.gradient, memory.buffers[0], memory.buffers[1],
                     o.amsgrad ? memory.buffers[2] : nullptr,
                     {.lr = o.lr,
                      .beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .eps = o.eps,
                      .weight_decay = decayed ? o.weight_decay : 0,
                      .decay_in_gradient = decay_in_gradient,
                      .step = step});
  };
  detail::update(layout_of(o), pairs, o.state, o.decays, formula);
}

}  // namespace

void AdamW::update(const std::vector<detail::Pair>& pairs) { update_adam(*this, pairs, false); }
void Adam::update(const std::vector<detail::Pair>& pairs) { update_adam(*this, pairs, true); }

void Sgd::update(const std::vector<detail::Pair>& pairs) {
  detail::check_options(
      "Sgd", {{"lr", lr}, {"momentum", momentum}, {"dampening", dampening}, {"weight_decay", weight_decay}}, {});
  const auto formula = [&]<class T>(const detail::Memory<T>& memory, Index step, bool) {
    kernels::sgd<T>(memory.n, memory.parameter, memory.gradient, momentum != 0 ? memory.buffers[0] : nullptr,
                    {.lr = lr,
                     .momentum = momentum,
                     .dampening = dampening,
                     .weight_decay = weight_decay,
                     .nesterov = nesterov,
                     .first = step == 1});
  };
  detail::update(layout_of(*this), pairs, state, nullptr, formula);
}

void RmsProp::update(const std::vector<detail::Pair>& pairs) {
  detail::check_options("RmsProp", {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}, {"momentum", momentum}},
                        {{"alpha", alpha}});
  const auto formula = [&]<class T>(const detail::Memory<T>& memory, Index, bool) {
    kernels::rms_prop<T>(memory.n, memory.parameter, memory.gradient, memory.buffers[0],
                         centered ? memory.buffers[1] : nullptr,
                         momentum != 0 ? memory.buffers[memory.buffers.size() - 1] : nullptr,
                         {.lr = lr, .alpha = alpha, .eps = eps, .weight_decay = weight_decay, .momentum = momentum});
  };
  detail::update(layout_of(*this), pairs, state, nullptr, formula);
}

void Lion::update(const std::vector<detail::Pair>& pairs) {
  detail::check_options("Lion", {{"lr", lr}, {"weight_decay", weight_decay}}, {{"beta1", beta1}, {"beta2", beta2}});
  const auto formula = [&]<class T>(const detail::Memory<T>& memory, Index, bool decayed) {
    kernels::lion<T>(memory.n, memory.parameter, memory.gradient, memory.buffers[0],
                     {.lr = lr, .beta1 = beta1, .beta2 = beta2, .weight_decay = decayed ? weight_decay : 0});
  };
  detail::update(layout_of(*this), pairs, state, decays, formula);
}

// ---- checkpoints ------------------------------------------------------------------------------------------------------

StateDict AdamW::state_dict() const { return detail::save_state(layout_of(*this), state); }
StateDict Adam::state_dict() const { return detail::save_state(layout_of(*this), state); }
StateDict Sgd::state_dict() const { return detail::save_state(layout_of(*this), state); }
StateDict RmsProp::state_dict() const { return detail::save_state(layout_of(*this), state); }
StateDict Lion::state_dict() const { return detail::save_state(layout_of(*this), state); }

void AdamW::load_state(const StateDict& saved) { state = detail::load_state(layout_of(*this), saved); }
void Adam::load_state(const StateDict& saved) { state = detail::load_state(layout_of(*this), saved); }
void Sgd::load_state(const StateDict& saved) { state = detail::load_state(layout_of(*this), saved); }
void RmsProp::load_state(const StateDict& saved) { state = detail::load_state(layout_of(*this), saved); }
void Lion::load_state(const StateDict& saved) { state = detail::load_state(layout_of(*this), saved); }

}  // namespace capstan::nn
