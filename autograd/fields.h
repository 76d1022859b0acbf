// Walks structures of tensors: a tensor, a vector or array of structures, or a struct that lists its fields once by
// `static void fields(auto& self, auto& f) { f("weight", self.weight); … }`. Gradients, state dicts, optimisers and
// printing are walks. Not for: parameters and their names (nn/module.h builds on this).
#pragma once

#include <capstan/autograd/tensor.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace capstan {

/// Where a walk stands; written out only when asked: "blocks.0.attention.query.weight".
struct Path {
  const Path* parent = nullptr;
  std::string_view name = {};
  Index index = -1;
  std::string str() const;
};

namespace detail {
struct AnyField {
  void operator()(std::string_view, const auto&) {}
};
template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T, std::size_t N>
inline constexpr bool is_list<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
}  // namespace detail

/// A struct with a static `fields(self, f)`.
template <class T>
concept HasFields = requires(T& self, detail::AnyField& f) {
  std::remove_const_t<T>::fields(self, f);
};

/// The tensor in a leaf that gradients flow to, or null for a leaf that has none. Other leaf types (nn::Parameter) bring
/// their own overload, found by their namespace.
inline Tensor* differentiable(Tensor& x) { return &x; }
inline const Tensor* differentiable(const Tensor& x) { return &x; }

/// Where a walk ends: a tensor, or another type with its own `differentiable`.
template <class T>
concept Leaf = requires(T& leaf) {
  differentiable(leaf);
};

namespace detail {
/// A class, so that the compiler says it once for a type, not in every walk.
template <class T>
struct RequireLeaf {
  static_assert(Leaf<T>, "capstan: a module lists its members in static void fields(auto& self, auto& f)");
};
}  // namespace detail

/// Calls visit(path, leaf) for every leaf of a structure, in the order of the fields.
template <class S, class Visit>
void walk(S& structure, Visit&& visit, const Path& path = {}) {
  using Plain = std::remove_const_t<S>;
  if constexpr (HasFields<S>) {
    auto field = [&](std::string_view name, auto& member) { walk(member, visit, Path{&path, name, -1}); };
    Plain::fields(structure, field);
  } else if constexpr (detail::is_list<Plain>) {
    Index index = 0;
    for (auto& element : structure) walk(element, visit, Path{&path, {}, index++});
  } else if constexpr (detail::is_optional<Plain>) {
    if (structure) walk(*structure, visit, path);
  } else {
    static_cast<void>(sizeof(detail::RequireLeaf<Plain>));
    if constexpr (Leaf<S>) visit(path, structure);  // else the visitor would add errors of its own
  }
}

/// Calls f(tensor) for every differentiable tensor of a structure.
template <class S, class F>
void for_each_tensor(S& structure, F&& f) {
  walk(structure, [&](const Path&, auto& leaf) {
    if (auto* x = differentiable(leaf)) f(*x);
  });
}

}  // namespace capstan
