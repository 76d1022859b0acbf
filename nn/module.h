// Parameters, Init, and the walks over modules: names, counts, watching. A module is a plain struct that lists its fields
// once (autograd/fields.h); everything here follows from that list. Not for: the layers themselves.
#pragma once

#include <capstan/autograd/fields.h>
#include <capstan/autograd/random.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/tensor.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace capstan::nn {

struct Init;

/// A tensor that is trained. Made by Init only, and by copying; converts to the Tensor that ops take. Carries its path
/// ("blocks.3.attention.query.weight") once name_parameters() has walked over its module.
class Parameter {
 public:
  operator const Tensor&() const { return value_; }
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  /// Empty before name_parameters().
  std::string_view path() const { return path_ ? std::string_view(*path_) : std::string_view(); }
  /// The path without its last piece, as errors name a layer: "blocks.3.attention.query".
  std::string_view owner() const;
  void set_path(std::string path) { path_ = std::make_shared<const std::string>(std::move(path)); }

  friend Tensor* differentiable(Parameter& parameter) { return &parameter.value_; }
  friend const Tensor* differentiable(const Parameter& parameter) { return &parameter.value_; }
  friend Tensor& stored(Parameter& parameter) { return parameter.value_; }
  friend const Tensor& stored(const Parameter& parameter) { return parameter.value_; }

 private:
  friend struct Init;
  explicit Parameter(Tensor value) : value_(std::move(value)) {}
  Tensor value_;
  std::shared_ptr<const std::string> path_;
};

/// A tensor that belongs to a module and is saved with it, but is not trained (a table of positions, a running mean).
class Fixed {
 public:
  explicit Fixed(Tensor value) : value_(value.detach()) {}
  operator const Tensor&() const { return value_; }
  const Tensor& value() const { return value_; }

  friend Tensor* differentiable(Fixed&) { return nullptr; }
  friend const Tensor* differentiable(const Fixed&) { return nullptr; }
  friend Tensor& stored(Fixed& fixed) { return fixed.value_; }
  friend const Tensor& stored(const Fixed& fixed) { return fixed.value_; }

 private:
  Tensor value_;
};

/// A bare tensor may be a field too: it is trained.
inline Tensor& stored(Tensor& x) { return x; }
inline const Tensor& stored(const Tensor& x) { return x; }

/// Makes parameters, each from a key of its own: Key{seed, number}. The same seed and the same order give the same bytes.
struct Init {
  std::uint64_t seed = 0;
  DType dtype = DType::f32;
  /// How many parameters were made so far; equals the number of named ones, or a module forgot a field: see
  /// name_parameters(module, init).
  Index made = 0;

  Parameter normal(const Shape& shape, double deviation);
  /// Uniform on [−bound, bound).
  Parameter uniform(const Shape& shape, double bound);
  Parameter zeros(const Shape& shape);
  Parameter ones(const Shape& shape);
};

namespace detail {
/// The paths of a walk. Two fields of one name would share a place in files and in an optimiser's state.
class Names {
 public:
  /// The path as text; an Error if it was added before.
  const std::string& add(const Path& path);
  bool contains(const std::string& name) const { return names_.contains(name); }

 private:
  std::set<std::string> names_;
};

/// An Error unless as many parameters were named as made.
void require_all_named(Index named, Index made);
/// "Linear blocks.3.mlp.up", or "Linear" if the layer's parameters have no path.
std::string layer_name(const char* type, const Parameter& weight);
/// An Error that names the layer unless x has `width` elements in its last axis, and the weight's dtype.
void require_input(const char* type, const Parameter& weight, const Tensor& x, Index width);
}  // namespace detail

/// Writes every parameter's path into it, and returns how many there are. Error: two fields with one path.
template <class Module>
Index name_parameters(Module& module) {
  detail::Names names;
  Index count = 0;
  walk(module, [&](const Path& path, auto& leaf) {
    const std::string& name = names.add(path);
    if constexpr (requires { leaf.set_path(name); }) {
      leaf.set_path(name);
      ++count;
    }
  });
  return count;
}

/// The same, and an Error unless these are all the parameters that `init` made: a field that `fields` does not list would never
/// be trained. `made_before`: what init.made was before the module, if init made others too.
template <class Module>
void name_parameters(Module& module, const Init& init, Index made_before = 0) {
  detail::require_all_named(name_parameters(module), init.made - made_before);
}

/// Number of trained elements; a tied parameter is one field and counts once.
template <class Module>
Index count_parameters(const Module& module) {
  Index count = 0;
  for_each_tensor(module, [&](const Tensor& x) { count += x.elements(); });
  return count;
}

/// Number of trained tensors.
template <class Module>
Index count_tensors(const Module& module) {
  Index count = 0;
  for_each_tensor(module, [&](const Tensor&) { ++count; });
  return count;
}

/// A copy of the module whose parameters are watched by the tape; the module itself stays as it is.
template <class Module>
Module watch(Tape& tape, const Module& module) {
  Module watched = module;
  for_each_tensor(watched, [&](Tensor& x) { x = tape.watch(x); });
  return watched;
}

}  // namespace capstan::nn
