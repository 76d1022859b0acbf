#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/nn/module.h>

namespace capstan::nn {

std::string_view Parameter::owner() const {
  const std::string_view whole = path();
  const std::size_t dot = whole.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : whole.substr(0, dot);
}

Parameter Init::normal(const Shape& shape, double deviation) {
  return Parameter(capstan::normal(Key{seed, static_cast<std::uint64_t>(made++)}, shape, 0, deviation, dtype));
}

Parameter Init::uniform(const Shape& shape, double bound) {
  const Key key{seed, static_cast<std::uint64_t>(made++)};
  if (bound == 0) return Parameter(full(shape, 0, dtype));
  return Parameter(capstan::uniform(key, shape, -bound, bound, dtype));
}

Parameter Init::zeros(const Shape& shape) {
  ++made;
  return Parameter(full(shape, 0, dtype));
}

Parameter Init::ones(const Shape& shape) {
  ++made;
  return Parameter(full(shape, 1, dtype));
}

namespace detail {

const std::string& Names::add(const Path& path) {
  const auto [name, added] = names_.insert(path.str());
  if (!added) fail("fields: each field must have a name of its own; got {} twice; rename one of them", *name);
  return *name;
}

void require_all_named(Index named, Index made) {
  if (named != made)
    fail(
        "name_parameters: fields must list each parameter that the module made; got {} listed and {} made; list every "
        "member in fields, and pass made_before if init made others too",
        named, made);
}

std::string layer_name(const char* type, const Parameter& weight) {
  const std::string_view owner = weight.owner();
  return fmt::format("{}{}{}", type, owner.empty() ? "" : " ", owner);
}

void require_input(const char* type, const Parameter& weight, const Tensor& x, Index width) {
  if (!x.defined())
    fail("{}: x must hold a value; got an empty handle; assign a tensor to it first", layer_name(type, weight));
  if (x.rank() == 0 || x.shape().back() != width)
    fail("{}: the last axis of x must be {}; got x {}", layer_name(type, weight), width, x.shape());
  if (x.dtype() != weight.value().dtype())
    fail("{}: x must be {} like the weight; got {}; cast it, or make the module with Init::dtype",
         layer_name(type, weight), weight.value().dtype(), x.dtype());
}

}  // namespace detail

}  // namespace capstan::nn
