#include <capstan/autograd/create.h>
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

}  // namespace capstan::nn
