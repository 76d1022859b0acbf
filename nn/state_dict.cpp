#include <capstan/autograd/format.h>
#include <capstan/nn/state_dict.h>

namespace capstan::nn {

StateDict select(const StateDict& tensors, const std::string& prefix) {
  StateDict found;
  for (const auto& [name, x] : tensors)
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), x);
  return found;
}

void insert(StateDict& tensors, const std::string& prefix, const StateDict& entries) {
  for (const auto& [name, x] : entries) tensors.insert_or_assign(prefix + name, x);
}

namespace detail {

namespace {
/// The first few of many names: "a, b, c, d, e, f, g, h and 80 more".
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t few = 8;
  if (names.size() <= few + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + few, ", "), names.size() - few);
}
}  // namespace

const Tensor* StateCheck::match(const Path& path, const Tensor& present, const StateDict& state) {
  const std::string& name = names_.add(path);
  const auto found = state.find(name);
  if (found == state.end()) {
    missing_.push_back(name);
    return nullptr;
  }
  const Tensor& given = found->second;
  if (!given.defined()) {
    misfits_.push_back(fmt::format("{} (an empty handle for {} {})", name, present.dtype(), present.shape()));
    return nullptr;
  }
  if (given.shape() == present.shape() && given.dtype() == present.dtype()) return &given;
  misfits_.push_back(
      fmt::format("{} ({} {} for {} {})", name, given.dtype(), given.shape(), present.dtype(), present.shape()));
  return nullptr;
}

void StateCheck::finish(const StateDict& state) const {
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : state)
    if (!names_.contains(name)) unexpected.push_back(name);
  std::vector<std::string> parts;
  if (!missing_.empty()) parts.push_back(fmt::format("missing {}", listed(missing_)));
  if (!unexpected.empty()) parts.push_back(fmt::format("unexpected {}", listed(unexpected)));
  if (!misfits_.empty()) parts.push_back(fmt::format("of another type {}", listed(misfits_)));
  if (!parts.empty()) fail("load_state: names, shapes and dtypes must be the module's; got {}", fmt::join(parts, "; "));
}

}  // namespace detail

}  // namespace capstan::nn
