// Tests of fields.h: walks over structures, their order and paths.
#include <capstan/autograd/create.h>
#include <capstan/autograd/fields.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;

struct Leaf {
  Tensor weight = ones({2}), bias = zeros({2});
  static void fields(auto& self, auto& f) {
    f("weight", self.weight);
    f("bias", self.bias);
  }
};

struct Tree {
  Tensor scale = ones({});
  std::vector<Leaf> blocks = std::vector<Leaf>(2);
  std::array<Tensor, 2> pair = {ones({1}), ones({1})};
  std::optional<Leaf> head = std::nullopt;
  static void fields(auto& self, auto& f) {
    f("scale", self.scale);
    f("blocks", self.blocks);
    f("pair", self.pair);
    f("head", self.head);
  }
};

static_assert(HasFields<Leaf> && HasFields<const Tree> && !HasFields<Tensor> && !HasFields<std::vector<Leaf>>);

template <class S>
std::vector<std::string> paths(S& structure) {
  std::vector<std::string> result;
  walk(structure, [&](const Path& path, auto&) { result.push_back(path.str()); });
  return result;
}

TEST(Fields, WalksInOrderWithPaths) {
  Tree tree;
  EXPECT_THAT(paths(tree), ElementsAre("scale", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
                                       "pair.0", "pair.1"));
  tree.head.emplace();
  EXPECT_THAT(paths(std::as_const(tree)), testing::Contains("head.weight"));
}

TEST(Fields, ATensorIsALeafWithoutAName) {
  const Tensor x = ones({2});
  EXPECT_THAT(paths(x), ElementsAre(""));
  const std::vector<Tensor> list = {x, x};
  EXPECT_THAT(paths(list), ElementsAre("0", "1"));
  const std::vector<std::vector<Tensor>> lists = {{x}, {}, {x, x}};
  EXPECT_THAT(paths(lists), ElementsAre("0.0", "2.0", "2.1"));
}

TEST(Fields, LeavesMayBeChangedInAMutableWalk) {
  Tree tree;
  for_each_tensor(tree, [](Tensor& x) { x = full(x.shape(), 7); });
  for_each_tensor(std::as_const(tree), [](const Tensor& x) {
    for (const double element : x.to_doubles()) EXPECT_EQ(element, 7);
  });
  int count = 0;
  for_each_tensor(tree, [&](Tensor&) { ++count; });
  EXPECT_EQ(count, 7);
}

}  // namespace
}  // namespace capstan
