// Tests of module.h: Init, parameters and their names, fixed tensors, counting, watching, copies, threads. That every
// module lists all of its fields is tested here for all of them.
#include <capstan/nn/nn.h>
#include <capstan/ops/elementwise.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::nn {
namespace {

using test::difference;
using test::error_of;
using test::same_bits;
using ::testing::Each;
using ::testing::ElementsAre;

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, x] : state) names.push_back(name);
  return names;
}

Gpt small_gpt(std::uint64_t seed = 1) {
  Init init{.seed = seed};
  return Gpt(init, {.vocab = 11, .context = 6, .width = 8, .heads = 2, .blocks = 2});
}

Tensor some_ids() { return tensor({{1, 2, 3, 10}, {0, 0, 9, 4}}, DType::i32); }

Tensor loss_of(const Gpt& model) {
  return cross_entropy(model(some_ids()), tensor({{2, 3, 4, 0}, {0, 9, 4, 5}}, DType::i32));
}

// ---- Init -----------------------------------------------------------------------------------------------------------

TEST(Init, BytesDependOnSeedAndNumberAlone) {
  Init init{.seed = 3};
  const Parameter first = init.normal({2, 5}, 0.5), second = init.normal({2, 5}, 0.5), third = init.uniform({7}, 0.25);
  EXPECT_TRUE(same_bits(first, normal(Key{3, 0}, {2, 5}, 0, 0.5)));
  EXPECT_TRUE(same_bits(second, normal(Key{3, 1}, {2, 5}, 0, 0.5)));
  EXPECT_TRUE(same_bits(third, uniform(Key{3, 2}, {7}, -0.25, 0.25)));
  EXPECT_FALSE(same_bits(first, second));
  EXPECT_EQ(init.made, 3);
}

TEST(Init, ConstantsCountToo) {
  Init init{.seed = 3, .dtype = DType::f64};
  test::expect_exactly(init.zeros({2}), {2}, {0, 0});
  test::expect_exactly(init.ones({2}), {2}, {1, 1});
  test::expect_exactly(init.uniform({2}, 0), {2}, {0, 0});
  EXPECT_EQ(init.made, 3);
  const Parameter fourth = init.normal({3}, 1);
  EXPECT_TRUE(same_bits(fourth, normal(Key{3, 3}, {3}, 0, 1, DType::f64)));
}

TEST(Init, SameSeedSameModel) {
  EXPECT_EQ(difference(small_gpt(5), small_gpt(5)), "");
  EXPECT_FALSE(same_bits(small_gpt(5).tokens.table, small_gpt(6).tokens.table));
}

// ---- named == made --------------------------------------------------------------------------------------------------

/// Parameters that a module made, and those that its fields name.
struct Parameters {
  Index made, named, trained;
};
template <class Module>
Parameters parameters_of(const typename Module::Config& config) {
  Init init{.seed = 1};
  const Module module(init, config);
  return {init.made, static_cast<Index>(state_dict(module).size()), count_tensors(module)};
}
void expect_complete(const Parameters& parameters, Index expected) {
  EXPECT_EQ(parameters.made, expected);
  EXPECT_EQ(parameters.named, expected);
  EXPECT_EQ(parameters.trained, expected);
}

TEST(Module, NamesAllThatItMade) {
  for (const bool bias : {false, true}) {
    const Index with_bias = bias ? 2 : 1;
    expect_complete(parameters_of<Linear>({.in = 2, .out = 3, .bias = bias}), with_bias);
    expect_complete(parameters_of<Linear>({.in = 2, .out = 3, .bias = bias, .deviation = 1}), with_bias);
    expect_complete(parameters_of<LayerNorm>({.width = 2, .bias = bias}), with_bias);
    expect_complete(parameters_of<Mlp>({.width = 2, .hidden = 3, .bias = bias}), 2 * with_bias);
    expect_complete(parameters_of<SingleHeadAttention>({.d_model = 4, .d_k = 2, .d_v = 3, .bias = bias}),
                    3 * with_bias);
    expect_complete(parameters_of<MultiHeadAttention>({.width = 4, .heads = 2, .bias = bias}), 4 * with_bias);
    expect_complete(parameters_of<MultiHeadAttention>({.width = 4, .heads = 2, .kv_heads = 1, .bias = bias}),
                    4 * with_bias);
    expect_complete(
        parameters_of<MultiHeadAttention>({.width = 4, .heads = 2, .memory_width = 3, .value_width = 5, .bias = bias}),
        4 * with_bias);
    expect_complete(parameters_of<Block>({.width = 4, .heads = 2, .bias = bias}), 8 * with_bias);
    expect_complete(parameters_of<Gpt>({.vocab = 5, .context = 3, .width = 4, .heads = 2, .blocks = 3, .bias = bias}),
                    2 + 25 * with_bias);
  }
  expect_complete(parameters_of<Embedding>({.rows = 3, .width = 2}), 1);
  expect_complete(parameters_of<Embedding>({.rows = 3, .width = 2, .padding_id = 0}), 1);
}

struct Forgetful {
  struct Config {};
  Parameter weight, gain;
  Forgetful(Init& init, const Config&) : weight(init.ones({2})), gain(init.ones({2})) {}
  static void fields(auto& self, auto& f) { f("weight", self.weight); }
};

TEST(Module, ThatForgetsAFieldIsCaught) {
  const Parameters parameters = parameters_of<Forgetful>({});
  EXPECT_EQ(parameters.made, 2);
  EXPECT_EQ(parameters.named, 1);
}

const char* const list_all = "; list every member in fields, and pass made_before if init made others too";

TEST(Module, ThatForgetsAFieldIsNotNamed) {
  Init init;
  Forgetful module(init, {});
  EXPECT_EQ(
      error_of([&] { name_parameters(module, init); }),
      std::string("name_parameters: fields must list each parameter that the module made; got 1 listed and 2 made") +
          list_all);
}

struct Doubled {  // lists a copy of its weight as if it were another parameter
  Parameter weight, copy;
  explicit Doubled(Init& init) : weight(init.ones({2})), copy(weight) {}
  static void fields(auto& self, auto& f) {
    f("weight", self.weight);
    f("copy", self.copy);
  }
};

TEST(Module, ThatListsMoreThanItMadeIsNotNamed) {
  Init init;
  Doubled module(init);
  EXPECT_EQ(
      error_of([&] { name_parameters(module, init); }),
      std::string("name_parameters: fields must list each parameter that the module made; got 2 listed and 1 made") +
          list_all);
}

TEST(Module, IsCheckedForItsOwnParametersOnly) {
  Init init;
  Linear first(init, {.in = 2, .out = 2});
  name_parameters(first, init);
  const Index made_before = init.made;
  Mlp second(init, {.width = 2});
  EXPECT_NE(error_of([&] { name_parameters(second, init); }), "no error");
  name_parameters(second, init, made_before);
  EXPECT_EQ(second.up.weight.path(), "up.weight");
  const Gpt third(init, {.vocab = 5, .context = 3, .width = 4, .heads = 2, .blocks = 1});  // checks itself
  EXPECT_EQ(third.tokens.table.path(), "tokens.table");
}

struct SameNames {
  Linear first, second;
  explicit SameNames(Init& init) : first(init, {.in = 2, .out = 2}), second(init, {.in = 2, .out = 2}) {}
  static void fields(auto& self, auto& f) {
    f("layer", self.first);
    f("layer", self.second);
  }
};

TEST(Module, WithTwoFieldsOfOneNameIsRefused) {
  const std::string sentence =
      "fields: each field must have a name of its own; got layer.weight twice; rename one of them";
  Init init;
  SameNames module(init);
  EXPECT_EQ(error_of([&] { name_parameters(module); }), sentence);
  EXPECT_EQ(error_of([&] { name_parameters(module, init); }), sentence);
  EXPECT_EQ(error_of([&] { state_dict(module); }), sentence);
  EXPECT_EQ(error_of([&] { load_state(module, {}); }), sentence);
  AdamW optimizer;
  EXPECT_EQ(error_of([&] { optimizer.step(module, module); }), sentence);
  EXPECT_TRUE(optimizer.state.empty());
}

TEST(Module, NamesFollowTheFields) {
  Init init{.seed = 1};
  const Gpt model(init, {.vocab = 5, .context = 3, .width = 4, .heads = 2, .blocks = 1});
  EXPECT_THAT(
      names_of(state_dict(model)),
      ElementsAre("blocks.0.attention.key.bias", "blocks.0.attention.key.weight", "blocks.0.attention.project.bias",
                  "blocks.0.attention.project.weight", "blocks.0.attention.query.bias",
                  "blocks.0.attention.query.weight", "blocks.0.attention.value.bias", "blocks.0.attention.value.weight",
                  "blocks.0.attention_norm.bias", "blocks.0.attention_norm.weight", "blocks.0.mlp.down.bias",
                  "blocks.0.mlp.down.weight", "blocks.0.mlp.up.bias", "blocks.0.mlp.up.weight",
                  "blocks.0.mlp_norm.bias", "blocks.0.mlp_norm.weight", "norm.bias", "norm.weight", "positions.table",
                  "tokens.table"));
}

TEST(Module, CountsTrainedElements) {
  Init init{.seed = 1};
  EXPECT_EQ(count_parameters(Linear(init, {.in = 3, .out = 2})), 8);
  EXPECT_EQ(count_parameters(Linear(init, {.in = 3, .out = 2, .bias = false})), 6);
  // 5·4 + 3·4 + 2·4 outside; 4·(16 + 4) + (4·16 + 16) + (16·4 + 4) + 2·8 in a block. The head counts nothing: it is tied.
  EXPECT_EQ(count_parameters(Gpt(init, {.vocab = 5, .context = 3, .width = 4, .heads = 2, .blocks = 2})),
            40 + 2 * (80 + 80 + 68 + 16));
}

// ---- fixed tensors --------------------------------------------------------------------------------------------------

struct Shifted {
  Parameter weight;
  Fixed shift;
  explicit Shifted(Init& init) : weight(init.ones({2})), shift(tensor({10, 20})) {}
  Tensor operator()(const Tensor& x) const { return x * weight + shift; }
  static void fields(auto& self, auto& f) {
    f("weight", self.weight);
    f("shift", self.shift);
  }
};

TEST(Fixed, IsSavedAndNotTrained) {
  Init init;
  Shifted module(init);
  EXPECT_THAT(names_of(state_dict(module)), ElementsAre("shift", "weight"));
  EXPECT_EQ(count_parameters(module), 2);
  const auto [value, gradient] = value_and_grad(module, [](const Shifted& m) { return sum(m(tensor({3, 4}))); });
  EXPECT_EQ(value.item(), 37);
  test::expect_exactly(gradient.weight, {2}, {3, 4});
  Sgd optimizer{.lr = 1};
  optimizer.step(module, gradient);
  test::expect_exactly(module.weight, {2}, {-2, -3});
  test::expect_exactly(module.shift, {2}, {10, 20});
  load_state(module, {{"weight", tensor({1, 1})}, {"shift", tensor({5, 6})}});
  test::expect_exactly(module.shift, {2}, {5, 6});
}

TEST(Fixed, IsAConstant) {
  Tape tape;
  const Fixed fixed(tape.watch(tensor({1, 2})));
  EXPECT_FALSE(fixed.value().recorded());
}

// ---- paths ----------------------------------------------------------------------------------------------------------

TEST(Parameter, CarriesItsPathOnceNamed) {
  Init init;
  Mlp mlp(init, {.width = 4, .hidden = 3});
  EXPECT_EQ(mlp.up.weight.path(), "");
  EXPECT_EQ(mlp.up.weight.owner(), "");
  name_parameters(mlp);
  EXPECT_EQ(mlp.up.weight.path(), "up.weight");
  EXPECT_EQ(mlp.down.bias->path(), "down.bias");
  EXPECT_EQ(mlp.down.bias->owner(), "down");
  Linear linear(init, {.in = 2, .out = 2});
  name_parameters(linear);
  EXPECT_EQ(linear.weight.owner(), "");
  const Gpt model = small_gpt();  // names itself
  walk(model, [](const Path& path, const Parameter& leaf) { EXPECT_EQ(leaf.path(), path.str()); });
  const Gpt copy = model;
  EXPECT_EQ(copy.blocks[1].attention.query.weight.owner(), "blocks.1.attention.query");
}

TEST(Parameter, PathIsTheLayerThatAnErrorNames) {
  Init init;
  Mlp mlp(init, {.width = 4, .hidden = 3});
  const Tensor x = ones({2, 3});
  EXPECT_EQ(error_of([&] { mlp(x); }), "Linear: the last axis of x must be 4; got x [2, 3]");
  name_parameters(mlp);
  EXPECT_EQ(error_of([&] { mlp(x); }), "Linear up: the last axis of x must be 4; got x [2, 3]");
  EXPECT_EQ(error_of([&] { small_gpt().blocks[1].mlp.down(x); }),
            "Linear blocks.1.mlp.down: the last axis of x must be 32; got x [2, 3]");
}

// ---- watching -------------------------------------------------------------------------------------------------------

TEST(Watch, LeavesTheModuleAsItIs) {
  const Gpt model = small_gpt();
  const StateDict before = state_dict(model);
  Tape tape;
  const Gpt watched = watch(tape, model);
  for_each_tensor(model, [](const Tensor& x) { EXPECT_FALSE(x.recorded()); });
  for_each_tensor(watched, [](const Tensor& x) { EXPECT_TRUE(x.recorded()); });
  EXPECT_EQ(tape.size(), count_tensors(model));
  EXPECT_FALSE(loss_of(model).recorded());
  EXPECT_EQ(difference(state_dict(model), before), "");
  for (const auto& [name, x] : state_dict(watched)) EXPECT_FALSE(x.recorded()) << name;
}

TEST(Watch, GivesTheGradientsOfAModule) {
  const Gpt model = small_gpt();
  Tape tape;
  const Gpt watched = watch(tape, model);
  const Gradients gradients = tape.backward(loss_of(watched), {.keep = true});
  EXPECT_EQ(gradients.unreached(), 0);
  const Gpt of_module = gradients.of(watched);
  EXPECT_EQ(names_of(state_dict(of_module)), names_of(state_dict(model)));
  const auto [loss, gradient] = value_and_grad(model, loss_of);
  EXPECT_EQ(loss.item(), loss_of(model).item());
  EXPECT_EQ(difference(of_module, gradient), "");
  for_each_tensor(gradient, [](const Tensor& x) { EXPECT_FALSE(x.recorded()); });
}

TEST(Module, IsACopyableValue) {
  const Gpt model = small_gpt();
  Gpt copy = model;
  EXPECT_EQ(difference(copy, model), "");
  Sgd optimizer{.lr = 1};
  optimizer.step(copy, value_and_grad(copy, loss_of).gradient);
  EXPECT_EQ(difference(model, small_gpt()), "");
  EXPECT_FALSE(same_bits(copy.tokens.table, model.tokens.table));
  copy = model;
  EXPECT_EQ(loss_of(copy).item(), loss_of(model).item());
}

TEST(Module, IsReadByManyThreads) {
  const Gpt model = small_gpt();
  const Gpt expected = value_and_grad(model, loss_of).gradient;
  std::vector<std::string> differences(2, "not run");
  std::vector<std::thread> threads;
  for (std::string& result : differences)
    threads.emplace_back([&model, &expected, &result] {
      std::string all;
      for (int i = 0; i < 5; ++i) all += difference(value_and_grad(model, loss_of).gradient, expected);
      result = all;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(differences, Each(""));
}

}  // namespace
}  // namespace capstan::nn
