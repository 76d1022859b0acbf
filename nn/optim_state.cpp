#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/pool_bypass.h>
#include <capstan/nn/optim_state.h>
#include <capstan/ops/kernels/parallel.h>

#include <algorithm>
#include <cmath>

namespace capstan::nn {

// The state was made past the pool's cache, and goes the same way.
ParameterState::~ParameterState() {
  const PoolBypass to_the_upstream;
  buffers.clear();
}

}  // namespace capstan::nn

namespace capstan::nn::detail {

void check_count(const char* optimizer, std::size_t gradients, std::size_t parameters) {
  if (gradients != parameters)
    fail("{}: there must be a gradient for each parameter; got {} for {}", optimizer, gradients, parameters);
}

void check_options(const char* optimizer, std::initializer_list<Option> amounts, std::initializer_list<Option> decays) {
  for (const Option& option : amounts)
    if (!std::isfinite(option.value) || option.value < 0)
      fail("{}: {} must be finite and not negative; got {}", optimizer, option.name, option.value);
  for (const Option& option : decays)
    if (!(option.value >= 0 && option.value < 1))
      fail("{}: {} must be in [0, 1); got {}", optimizer, option.name, option.value);
}

void check_update(const StateLayout& layout, const std::vector<Pair>& pairs, const OptimizerState& state) {
  for (const Pair& pair : pairs) {
    const Tensor &p = *pair.parameter, &g = pair.gradient;
    if (!p.defined() || !is_float(p.dtype()))
      fail("{}: a parameter must be f32 or f64; got {} for {}", layout.optimizer,
           p.defined() ? name_of(p.dtype()) : "an empty handle", pair.name);
    if (!g.defined() || g.shape() != p.shape() || g.dtype() != p.dtype())
      fail("{}: a gradient must have its parameter's shape and dtype; got {} for {} {} {}", layout.optimizer,
           g.defined() ? fmt::format("{} {}", g.dtype(), g.shape()) : std::string("none"), pair.name, p.dtype(),
           p.shape());
    const auto own = state.find(pair.name);
    if (own == state.end() || layout.buffers.empty()) continue;
    if (own->second.buffers.size() != layout.buffers.size())
      fail(
          "{}: the state must hold {} tensors for each parameter, as these options want; got {} for {}; load a state "
          "that was saved with the same options",
          layout.optimizer, layout.buffers.size(), own->second.buffers.size(), pair.name);
    for (const Tensor& buffer : own->second.buffers)
      if (buffer.shape() != p.shape() || buffer.dtype() != p.dtype())
        fail("{}: the state must have its parameter's shape and dtype; got {} {} for {} {} {}", layout.optimizer,
             buffer.dtype(), buffer.shape(), pair.name, p.dtype(), p.shape());
  }
}

ParameterState& state_of(const StateLayout& layout, const Pair& pair, OptimizerState& state) {
  if (const auto found = state.find(pair.name); found != state.end()) return found->second;
  const PoolBypass new_blocks;  // the training step wants its own again
  ParameterState fresh;
  for (std::size_t i = 0; i < layout.buffers.size(); ++i)
    fresh.buffers.push_back(zeros(pair.parameter->shape(), pair.parameter->dtype()));
  return state.emplace(pair.name, std::move(fresh)).first->second;
}

std::deque<Update> lend(const StateLayout& layout, const std::vector<Pair>& pairs, OptimizerState& state,
                        Decays decays) {
  std::deque<Update> updates;
  for (const Pair& pair : pairs) {
    ParameterState* const own = layout.buffers.empty() ? nullptr : &state_of(layout, pair, state);
    // Asked before the memory is lent: until it is back, the parameter is an empty handle.
    const bool decayed = decays == nullptr || decays(pair.name, *pair.parameter);
    Update& update = updates.emplace_back(Update{own, pair.gradient.dense(), decayed, {}});
    update.loans.reserve(layout.buffers.size() + 1);
    update.loans.emplace_back(*pair.parameter);
    for (std::size_t i = 0; i < layout.buffers.size(); ++i) update.loans.emplace_back(own->buffers[i]);
  }
  return updates;
}

void for_pieces(std::deque<Update>& updates, FunctionRef<void(Update& update, Index begin, Index end)> f) {
  constexpr Index grain = 16384;  // elements a task
  std::vector<Index> starts;      // of each parameter, all of them laid end to end
  Index total = 0;
  for (const Update& update : updates) {
    starts.push_back(total);
    total += update.gradient.elements();
  }
  kernels::parallel_blocks(kernels::Region::optimizer, total, grain, [&](Index begin, Index end) {
    auto at = static_cast<std::size_t>(std::ranges::upper_bound(starts, begin) - starts.begin()) - 1;
    for (; at < updates.size() && starts[at] < end; ++at) {
      const Index first = std::max(begin, starts[at]) - starts[at];
      const Index last = std::min(end - starts[at], updates[at].gradient.elements());
      if (first < last) f(updates[at], first, last);
    }
  });
}

StateDict save_state(const StateLayout& layout, const OptimizerState& state) {
  StateDict saved;
  for (const auto& [name, own] : state) {
    if (own.steps == 0) continue;  // memory ran out before the first step
    for (std::size_t i = 0; i < own.buffers.size() && i < layout.buffers.size(); ++i)
      saved.emplace(fmt::format("{}.{}", layout.buffers[i], name), own.buffers[i]);
    if (layout.steps) saved.emplace("steps." + name, full({}, static_cast<double>(own.steps), DType::f64));
  }
  return saved;
}

namespace {

Index steps_of(const StateLayout& layout, const std::string& name, const StateDict& steps) {
  const double count = steps.at(name).item();
  if (!(count >= 0 && count <= 0x1p53) || count != std::floor(count))
    fail("{}: steps must be a whole number, not negative; got {} for {}", layout.optimizer, count, name);
  return static_cast<Index>(count);
}

}  // namespace

OptimizerState load_state(const StateLayout& layout, const StateDict& saved) {
  std::vector<const char*> kinds = layout.buffers;
  if (layout.steps) kinds.push_back("steps");
  std::map<std::string, StateDict> by_kind;
  std::size_t known = 0;
  for (const char* kind : kinds) known += (by_kind[kind] = select(saved, std::string(kind) + ".")).size();
  if (known != saved.size())
    fail("{}: the state must hold {} for each name; got {} tensors of other names", layout.optimizer,
         kinds.empty() ? "nothing" : fmt::format("{}", fmt::join(kinds, ", ")), saved.size() - known);

  for (const auto& [name, tensor] : saved)
    if (!tensor.defined())
      fail("{}: the state must hold values; got an empty handle for {}", layout.optimizer, name);

  OptimizerState loaded;
  for (const char* kind : kinds)
    for (const auto& [name, tensor] : by_kind[kind]) {
      for (const char* other : kinds)
        if (!by_kind[other].contains(name))
          fail("{}: the state must hold {} for each name; got no {} for {}", layout.optimizer, fmt::join(kinds, ", "),
               other, name);
      ParameterState& own = loaded[name];
      if (layout.steps && kind == kinds.back()) {
        own.steps = steps_of(layout, name, by_kind[kind]);
        continue;
      }
      const Tensor& first = own.buffers.empty() ? tensor : own.buffers[0];
      if (!is_float(tensor.dtype()) || tensor.dtype() != first.dtype() || tensor.shape() != first.shape())
        fail("{}: the state must be f32 or f64, of one shape and dtype; got {} {} and {} {} for {}", layout.optimizer,
             first.dtype(), first.shape(), tensor.dtype(), tensor.shape(), name);
      own.buffers.push_back(tensor);
      // What has no steps in its files has taken at least one.
      if (!layout.steps) own.steps = 1;
    }
  return loaded;
}

}  // namespace capstan::nn::detail
