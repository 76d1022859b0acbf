// The named tensors of a module, and loading them back strictly. Not for: files (<capstan/nn/io/checkpoint.h>).
#pragma once

#include <capstan/nn/module.h>

#include <map>
#include <string>

namespace capstan::nn {

/// Path → tensor; trained and fixed ones. To a file and back: <capstan/nn/io/checkpoint.h>.
using StateDict = std::map<std::string, Tensor>;

/// The entries whose names begin with `prefix`, without it.
StateDict select(const StateDict& tensors, const std::string& prefix);
/// Adds all entries under `prefix`.
void insert(StateDict& tensors, const std::string& prefix, const StateDict& entries);

/// Every tensor of a module by its path. Error: two fields with one path.
template <class Module>
StateDict state_dict(const Module& module) {
  StateDict state;
  detail::Names names;
  walk(module, [&](const Path& path, const auto& leaf) { state.emplace(names.add(path), stored(leaf).detach()); });
  return state;
}

namespace detail {
/// Collects what does not fit and throws one Error that lists it all.
class StateCheck {
 public:
  /// The tensor to load under `name`, or null after noting why there is none.
  const Tensor* match(const Path& path, const Tensor& present, const StateDict& state);
  void finish(const StateDict& state) const;

 private:
  Names names_;
  std::vector<std::string> missing_, misfits_;
};
}  // namespace detail

/// Replaces every tensor of the module by the one of its path. Strict: an Error that lists all missing, unexpected and
/// wrong-shaped names (of many the first few), and then nothing was changed.
template <class Module>
void load_state(Module& module, const StateDict& state) {
  detail::StateCheck check;
  walk(module, [&](const Path& path, const auto& leaf) { check.match(path, stored(leaf), state); });
  check.finish(state);
  walk(module, [&](const Path& path, auto& leaf) { stored(leaf) = state.at(path.str()).detach(); });
}

}  // namespace capstan::nn
