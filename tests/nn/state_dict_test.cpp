// Tests of state_dict.h and summary.h: named tensors, strict loading, the table of a module.
#include <capstan/nn/nn.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::nn {
namespace {

using test::difference;
using test::error_of;
using test::expect_exactly;

Mlp small_mlp(std::uint64_t seed = 1) {
  Init init{.seed = seed};
  return Mlp(init, {.width = 2, .hidden = 3});
}

// ---- state_dict and load_state --------------------------------------------------------------------------------------

TEST(StateDict, GoesRound) {
  const Mlp from = small_mlp(1);
  Mlp to = small_mlp(2);
  name_parameters(to);
  EXPECT_NE(difference(to, from), "");
  load_state(to, state_dict(from));
  EXPECT_EQ(difference(to, from), "");
  EXPECT_EQ(to.up.weight.path(), "up.weight");  // values are loaded, names stay
}

TEST(StateDict, HoldsConstants) {
  Tape tape;
  const Mlp watched = watch(tape, small_mlp());
  for (const auto& [name, x] : state_dict(watched)) EXPECT_FALSE(x.recorded()) << name;
  StateDict recorded = state_dict(watched);
  recorded["up.bias"] = tape.watch(ones({3}));
  Mlp loaded = small_mlp();
  load_state(loaded, recorded);
  EXPECT_FALSE(loaded.up.bias->value().recorded());
}

TEST(StateDict, SelectsAndInsertsByPrefix) {
  StateDict all;
  insert(all, "model.", state_dict(small_mlp()));
  insert(all, "other.", {{"x", ones({2})}});
  EXPECT_EQ(all.size(), 5U);
  EXPECT_EQ(difference(select(all, "model."), state_dict(small_mlp())), "");
  EXPECT_EQ(select(all, "other.").count("x"), 1U);
  EXPECT_TRUE(select(all, "absent.").empty());
  insert(all, "other.", {{"x", tensor({5})}});  // replaces
  expect_exactly(all.at("other.x"), {1}, {5});
}

TEST(StateDict, LoadsStrictly) {
  const auto refused = [](const StateDict& state) {
    Mlp mlp = small_mlp();
    std::string sentence = error_of([&] { load_state(mlp, state); });
    EXPECT_EQ(difference(mlp, small_mlp()), "");
    return sentence;
  };
  const std::string must = "load_state: names, shapes and dtypes must be the module's; got ";
  StateDict state = state_dict(small_mlp(2));
  state.erase("down.bias");
  EXPECT_EQ(refused(state), must + "missing down.bias");
  state["gate.weight"] = ones({2});
  state["gate.bias"] = ones({2});
  EXPECT_EQ(refused(state), must + "missing down.bias; unexpected gate.bias, gate.weight");
  state["up.weight"] = ones({2, 3});
  state["up.bias"] = ones({3}, DType::f64);
  state.erase("down.weight");
  EXPECT_EQ(refused(state),
            must +
                "missing down.weight, down.bias; unexpected gate.bias, gate.weight; of another type up.weight (f32 "
                "[2, 3] for f32 [3, 2]), up.bias (f64 [3] for f32 [3])");
  EXPECT_EQ(refused({}), must + "missing up.weight, up.bias, down.weight, down.bias");
  state = state_dict(small_mlp(2));
  state["up.bias"] = Tensor();
  EXPECT_EQ(refused(state), must + "of another type up.bias (an empty handle for f32 [3])");
}

TEST(StateDict, OfManyNamesTheFirstFewAreTold) {
  std::vector<Tensor> many(100, ones({2}));
  StateDict state = state_dict(many);
  for (int i = 0; i < 88; ++i) state["more." + std::to_string(i)] = ones({1});
  for (int i = 0; i < 9; ++i) state.erase(std::to_string(i));
  for (int i = 10; i < 99; ++i) state[std::to_string(i)] = ones({3});
  EXPECT_EQ(
      error_of([&] { load_state(many, state); }),
      "load_state: names, shapes and dtypes must be the module's; got missing 0, 1, 2, 3, 4, 5, 6, 7, 8; unexpected "
      "more.0, more.1, more.10, more.11, more.12, more.13, more.14, more.15 and 80 more; of another type 10 (f32 "
      "[3] for f32 [2]), 11 (f32 [3] for f32 [2]), 12 (f32 [3] for f32 [2]), 13 (f32 [3] for f32 [2]), 14 (f32 [3] "
      "for f32 [2]), 15 (f32 [3] for f32 [2]), 16 (f32 [3] for f32 [2]), 17 (f32 [3] for f32 [2]) and 81 more");
}

// ---- summary --------------------------------------------------------------------------------------------------------

TEST(Summary, FoldsEqualBlocks) {
  Init init;
  const Gpt model(init, {.vocab = 50, .context = 16, .width = 32, .heads = 4, .blocks = 3});
  EXPECT_EQ(summary(model), R"(parameter                          shape            times       elements
tokens.table                       [50, 32]             1          1 600
positions.table                    [16, 32]             1            512
blocks.*.attention_norm.weight     [32]                 3             96
blocks.*.attention_norm.bias       [32]                 3             96
blocks.*.attention.query.weight    [32, 32]             3          3 072
blocks.*.attention.query.bias      [32]                 3             96
blocks.*.attention.key.weight      [32, 32]             3          3 072
blocks.*.attention.key.bias        [32]                 3             96
blocks.*.attention.value.weight    [32, 32]             3          3 072
blocks.*.attention.value.bias      [32]                 3             96
blocks.*.attention.project.weight  [32, 32]             3          3 072
blocks.*.attention.project.bias    [32]                 3             96
blocks.*.mlp_norm.weight           [32]                 3             96
blocks.*.mlp_norm.bias             [32]                 3             96
blocks.*.mlp.up.weight             [128, 32]            3         12 288
blocks.*.mlp.up.bias               [128]                3            384
blocks.*.mlp.down.weight           [32, 128]            3         12 288
blocks.*.mlp.down.bias             [32]                 3             96
norm.weight                        [32]                 1             32
norm.bias                          [32]                 1             32
total trained                                                     40 288
)");
}

struct Odd {
  std::vector<Linear> layers;
  Fixed table{ones({7})};
  static void fields(auto& self, auto& f) {
    f("layers", self.layers);
    f("table", self.table);
  }
};

TEST(Summary, KeepsUnequalBlocksApartAndMarksWhatIsNotTrained) {
  Init init;
  Odd odd;
  odd.layers.emplace_back(init, Linear::Config{.in = 1000, .out = 1234, .bias = false});
  odd.layers.emplace_back(init, Linear::Config{.in = 2, .out = 3, .bias = false});
  EXPECT_EQ(summary(odd), R"(parameter          shape            times       elements
layers.*.weight    [1234, 1000]         1      1 234 000
layers.*.weight    [3, 2]               1              6
table              [7]                  1              7  not trained
total trained                                  1 234 006
total not trained                                      7
)");
}

TEST(Summary, OfALayer) {
  Init init;
  EXPECT_EQ(summary(Linear(init, {.in = 2, .out = 3})), R"(parameter      shape            times       elements
weight         [3, 2]               1              6
bias           [3]                  1              3
total trained                                      9
)");
}

}  // namespace
}  // namespace capstan::nn
