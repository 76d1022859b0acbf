// Masks of every kind, and sizes, on which all paths of attention are compared.
#pragma once

#include <capstan/autograd/create.h>
#include <capstan/autograd/random.h>
#include <capstan/ops/mask.h>

#include <optional>
#include <string>
#include <vector>

namespace capstan::test {

/// Each element true with probability ½.
inline Tensor coin(std::uint64_t seed, const Shape& shape) {
  Buffer buffer(shape, DType::boolean);
  Keep(Key{.seed = seed}, 0.5).fill(buffer.data<bool>().data(), buffer.elements());
  return buffer;
}

struct NamedMask {
  std::string name;
  Mask mask;
};

/// Masks for scores [2, 4, queries, keys].
inline std::vector<NamedMask> masks(Index queries, Index keys) {
  const Mask padding = Mask::padding({keys, keys / 2});
  const Mask bottom = Mask::causal(Align::bottom_right), top = Mask::causal(Align::top_left);
  std::vector<NamedMask> list = {
      {"all", Mask::all()},
      {"causal, top left", top},
      {"causal, bottom right", bottom},
      {"padding", padding},
      {"padding with an empty sequence", Mask::padding({0, keys})},
      {"window of two, top left", Mask::window(1, 0, Align::top_left)},
      {"window of two, bottom right", Mask::window(1, 0, Align::bottom_right)},
      {"window to both sides", Mask::window(1, 1, Align::top_left)},
      {"window open to the left", Mask::window(std::nullopt, 1, Align::bottom_right)},
      {"keep per pair", Mask::keep(coin(1, {queries, keys}))},
      {"keep per batch", Mask::keep(coin(2, {2, 1, queries, keys}))},
      {"keep per head", Mask::keep(coin(3, {4, queries, keys}))},
      {"keep per key", Mask::keep(coin(4, {2, 1, 1, keys}))},
      {"keep per query", Mask::keep(coin(5, {queries, 1}))},
      {"keep nothing", Mask::keep(full({1, 1}, 0, DType::boolean))},
      {"causal and padding", bottom & padding},
      {"all kinds",
       bottom & padding & Mask::window(2, 0, Align::bottom_right) & Mask::keep(coin(6, {4, queries, keys}))},
  };
  if (queries == keys) {
    list.push_back({"causal", Mask::causal()});
    list.push_back({"window", Mask::window(2)});
  }
  return list;
}

struct Case {
  Index queries, keys;
};
inline constexpr Case sizes[] = {{4, 4}, {3, 6}, {6, 3}, {1, 5}, {5, 1}};

}  // namespace capstan::test
