// What all optimisers share: the walk over parameters and gradients, the checks, the state and its way to a checkpoint and
// back, and the loan of memory to a formula. An optimiser is its options and its formula (optim.h). Not for: users.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/nn/module.h>
#include <capstan/nn/state_dict.h>

#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::nn {

/// What an optimiser keeps of one parameter: tensors of its shape and dtype, and how many steps it took.
struct ParameterState {
  std::vector<Tensor> buffers;
  Index steps = 0;
  ~ParameterState();
};
/// By parameter name.
using OptimizerState = std::map<std::string, ParameterState>;

namespace detail {

/// A trained tensor of a module beside its gradient.
struct Pair {
  std::string name;
  Tensor* parameter;
  Tensor gradient;
};

/// An Error unless there are as many gradients as parameters.
void check_count(const char* optimizer, std::size_t gradients, std::size_t parameters);

template <class Module>
std::vector<Pair> pairs(const char* optimizer, Module& module, const Module& gradients) {
  std::vector<Pair> list;
  Names names;
  walk(module, [&](const Path& path, auto& leaf) {
    if (Tensor* x = differentiable(leaf)) list.push_back({names.add(path), x, {}});
  });
  std::size_t i = 0;
  for_each_tensor(gradients, [&](const Tensor& gradient) {
    if (i < list.size()) list[i].gradient = gradient;
    ++i;
  });
  check_count(optimizer, i, list.size());
  return list;
}

/// The memory of a tensor, lent for writing: in place if it has no other owner. Given back when the loan ends, however it ends.
class Loan {
 public:
  explicit Loan(Tensor& home) : home_(&home), buffer_(std::move(home).to_buffer()) {}
  Loan(Loan&& other) noexcept : home_(std::exchange(other.home_, nullptr)), buffer_(std::move(other.buffer_)) {}
  Loan& operator=(Loan&&) = delete;
  ~Loan() {
    if (home_) *home_ = Tensor(std::move(buffer_));
  }
  Buffer& operator*() { return buffer_; }

 private:
  Tensor* home_;
  Buffer buffer_;
};

/// What stands in an optimiser's state: its name for messages, the names of its buffers, whether a checkpoint has its steps.
struct StateLayout {
  const char* optimizer;
  std::vector<const char*> buffers;
  bool steps = true;
};

/// An option of an optimiser with its name for messages.
struct Option {
  const char* name;
  double value;
};
/// An Error unless all amounts are finite and not negative, and all rates of decay in [0, 1).
void check_options(const char* optimizer, std::initializer_list<Option> amounts, std::initializer_list<Option> decays);

/// An Error, before anything was changed, unless parameters, gradients and state fit each other.
void check_update(const StateLayout& layout, const std::vector<Pair>& pairs, const OptimizerState& state);
/// The state of one parameter; made of zeros if it is new.
ParameterState& state_of(const StateLayout& layout, const Pair& pair, OptimizerState& state);

StateDict save_state(const StateLayout& layout, const OptimizerState& state);
OptimizerState load_state(const StateLayout& layout, const StateDict& saved);

/// A piece of one parameter's memory as its formula sees it: n elements of the parameter, its gradient, and each buffer.
template <class T>
struct Memory {
  Index n;
  T* parameter;
  const T* gradient;
  Small<T*, 4> buffers;  ///< in the order of the layout
};

/// Which parameters are decayed; null: all.
using Decays = bool (*)(std::string_view name, const Tensor& parameter);

/// A parameter in the course of a step: its memory and its buffers', lent until the step ends.
struct Update {
  ParameterState* state;  ///< null if the optimiser keeps none
  Tensor gradient;        ///< dense
  bool decayed;
  std::vector<Loan> loans;  ///< the parameter, then the buffers

  Index step() const { return state ? state->steps + 1 : 1; }
  template <class T>
  Memory<T> piece(Index begin, Index end) {
    Memory<T> memory{
        end - begin, (*loans[0]).template data<T>().data() + begin, gradient.template data<T>().data() + begin, {}};
    for (std::size_t i = 1; i < loans.size(); ++i)
      memory.buffers.push_back((*loans[i]).template data<T>().data() + begin);
    return memory;
  }
};

/// All memory of a step, lent before anything is written: a step for which memory runs out changes nothing.
std::deque<Update> lend(const StateLayout& layout, const std::vector<Pair>& pairs, OptimizerState& state,
                        Decays decays);
/// Calls f for pieces [begin, end) of all parameters, small ones together, in parallel.
void for_pieces(std::deque<Update>& updates, FunctionRef<void(Update& update, Index begin, Index end)> f);

/// One update of every parameter: formula(memory, step, decayed) for each piece, with step 1 for the first.
template <class Formula>
void update(const StateLayout& layout, const std::vector<Pair>& pairs, OptimizerState& state, Decays decays,
            Formula&& formula) {
  check_update(layout, pairs, state);
  std::deque<Update> updates = lend(layout, pairs, state, decays);
  for_pieces(updates, [&](Update& update, Index begin, Index end) {
    visit_float(update.gradient.dtype(),
                [&](auto zero) { formula(update.piece<decltype(zero)>(begin, end), update.step(), update.decayed); });
  });
  for (Update& update : updates)
    if (update.state) ++update.state->steps;
}

}  // namespace detail

}  // namespace capstan::nn
