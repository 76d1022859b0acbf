// Tests of optim.h: single steps, updates in place, state, errors. Traces against reference results: golden_optim_test.cpp;
// when memory runs out: optim_memory_test.cpp; clipping: clip_test.cpp.
#include <capstan/nn/nn.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect.h"
#include "support/states.h"
#include "support/two.h"

namespace capstan::nn {
namespace {

using test::addresses;
using test::difference;
using test::error_of;
using test::expect_exactly;
using test::expect_near;
using test::Two;
using test::two;

Gpt small_gpt() {
  Init init{.seed = 1};
  return Gpt(init, {.vocab = 11, .context = 6, .width = 8, .heads = 2, .blocks = 2});
}
Tensor loss_of(const Gpt& model) {
  return cross_entropy(model(tensor({{1, 2, 3, 10}, {0, 0, 9, 4}}, DType::i32)),
                       tensor({{2, 3, 4, 0}, {0, 9, 4, 5}}, DType::i32));
}
template <class Optimizer>
void train(Gpt& model, Optimizer& optimizer, int steps) {
  for (int i = 0; i < steps; ++i) {
    auto [loss, gradients] = value_and_grad(model, loss_of);
    optimizer.step(model, gradients);
  }
}
// ---- single steps ---------------------------------------------------------------------------------------------------

TEST(AdamW, DecaysFirst) {  // CASES 49
  Two module = two(1, 1);
  AdamW optimizer{.lr = 0.1, .weight_decay = 0.1};
  optimizer.step(module, two(1, 1));
  expect_near(module.w, {2, 2}, {0.89, 0.89, 0.89, 0.89}, 1e-8);  // eps beside a gradient of 1
  EXPECT_NEAR(module.b.at({0}), 1 * (1 - 0.1 * 0.1) - 0.1 / (1 + 1e-8), 1e-16);
}

TEST(AdamW, AddsEpsAfterTheCorrectionOfBias) {  // CASES 50
  Two module = two(0, 0);
  AdamW optimizer{.lr = 0.5, .eps = 1e-8, .weight_decay = 0};
  optimizer.step(module, two(1e-6, 1e-6));
  EXPECT_NEAR(module.w.at({0, 0}) / -0.5, 0.990099, 1e-6);
  EXPECT_NEAR(module.w.at({0, 0}) / -0.5, 1e-6 / (1e-6 + 1e-8), 1e-12);
}

TEST(AdamW, DecaysWhatItIsToldTo) {
  Two module = two(1, 1);
  AdamW optimizer{.lr = 0.1, .weight_decay = 0.5, .decays = decay_matrices};
  optimizer.step(module, two(0, 0));
  expect_exactly(module.w, {2, 2}, std::vector<double>(4, 1 - 0.1 * 0.5));
  expect_exactly(module.b, {3}, {1, 1, 1});
  EXPECT_TRUE(decay_matrices("", ones({2, 2})));
  EXPECT_FALSE(decay_matrices("", ones({2})));
  AdamW by_name{
      .lr = 0.1, .weight_decay = 0.5, .decays = [](std::string_view name, const Tensor&) { return name == "b"; }};
  by_name.step(module, two(0, 0));
  expect_exactly(module.w, {2, 2}, std::vector<double>(4, 1 - 0.1 * 0.5));
  expect_exactly(module.b, {3}, std::vector<double>(3, 1 - 0.1 * 0.5));
}

TEST(Adam, DecaysInTheGradient) {
  Two decayed = two(2, 2), plain = two(2, 2);
  Adam with{.lr = 0.1, .weight_decay = 0.5, .decays = decay_matrices}, without{.lr = 0.1};
  with.step(decayed, two(3, 3));
  without.step(plain, {full({2, 2}, 3 + 0.5 * 2, DType::f64), full({3}, 3, DType::f64)});
  EXPECT_EQ(difference(decayed, plain), "");
}

TEST(Lion, MovesEveryElementByItsRate) {
  Two module = two(1, 1);
  Lion optimizer{.lr = 0.25, .weight_decay = 1, .decays = decay_matrices};
  optimizer.step(module, two(1e-9, -7));
  expect_exactly(module.w, {2, 2}, std::vector<double>(4, 0.75 - 0.25));
  expect_exactly(module.b, {3}, {1.25, 1.25, 1.25});
}

TEST(RmsProp, FirstStep) {
  Two module = two(1, 1);
  RmsProp{.lr = 0.1, .alpha = 0.75}.step(module, two(4, -4));  // √(0.25 · 16) = 2
  EXPECT_NEAR(module.w.at({0, 0}), 1 - 0.1 * 2, 1e-8);
  EXPECT_NEAR(module.b.at({0}), 1 + 0.1 * 2, 1e-8);
}

struct Tied {
  Tensor w = zeros({}, DType::f64);
  static void fields(auto& self, auto& f) { f("w", self.w); }
};

TEST(Sgd, ATensorUsedTwiceMovesOnce) {  // CASES 51
  Tied module;
  EXPECT_EQ(count_parameters(module), 1);
  EXPECT_EQ(state_dict(module).size(), 1U);
  Sgd optimizer{.lr = 0.1};
  optimizer.step(module, grad(module, [](const Tied& m) { return m.w + m.w; }));
  EXPECT_EQ(module.w.item(), -0.2);
}

TEST(Sgd, TakesGradientsOfAnyLayout) {
  Two module = two(1, 1);
  const Tensor rows = tensor({{1, 2}, {3, 4}}, DType::f64);
  Sgd optimizer{.lr = 1};
  // Transposed, and a broadcast of one number: no memory of their own.
  optimizer.step(module, {transpose(rows), broadcast_to(tensor(2, DType::f64), Shape{3})});
  expect_exactly(module.w, {2, 2}, {0, -2, -1, -3});
  expect_exactly(module.b, {3}, {-1, -1, -1});
  optimizer.step(module, module);  // its own values as gradients
  expect_exactly(module.w, {2, 2}, {0, 0, 0, 0});
}

TEST(AdamW, SkipsNothingThatIsEmpty) {
  Two module{zeros({0, 2}), ones({1})};
  AdamW optimizer{.lr = 0.1, .weight_decay = 0};
  optimizer.step(module, {zeros({0, 2}), ones({1})});
  EXPECT_EQ(to_string(module.w.shape()), "[0, 2]");
  EXPECT_NEAR(module.b.at({0}), 0.9, 1e-6);
}

// ---- in place -------------------------------------------------------------------------------------------------------

template <class Optimizer>
void expect_in_place(Optimizer optimizer) {
  Gpt model = small_gpt();
  train(model, optimizer, 1);  // the first step may move what Init shares
  const std::vector<const void*> before = addresses(model);
  train(model, optimizer, 3);
  EXPECT_EQ(addresses(model), before);
  // A snapshot keeps its values: the model moves away once, and stays there.
  const StateDict snapshot = state_dict(model);
  std::map<std::string, std::vector<double>> values;
  for (const auto& [name, x] : snapshot) values[name] = x.to_doubles();
  train(model, optimizer, 1);
  const std::vector<const void*> moved = addresses(model);
  for (const auto& [name, x] : snapshot) EXPECT_EQ(x.to_doubles(), values[name]) << name;
  for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_NE(moved[i], before[i]);
  train(model, optimizer, 2);
  EXPECT_EQ(addresses(model), moved);
}

TEST(AdamW, UpdatesInPlaceWhereTheModuleIsTheOnlyOwner) { expect_in_place(AdamW{.lr = 1e-3}); }
TEST(Adam, UpdatesInPlaceWhereTheModuleIsTheOnlyOwner) { expect_in_place(Adam{.lr = 1e-3}); }
TEST(Sgd, UpdatesInPlaceWhereTheModuleIsTheOnlyOwner) { expect_in_place(Sgd{.lr = 1e-2, .momentum = 0.9}); }
TEST(RmsProp, UpdatesInPlaceWhereTheModuleIsTheOnlyOwner) { expect_in_place(RmsProp{.lr = 1e-4, .centered = true}); }
TEST(Lion, UpdatesInPlaceWhereTheModuleIsTheOnlyOwner) { expect_in_place(Lion{.lr = 1e-4}); }

TEST(Optimizers, Train) {
  Gpt model = small_gpt();
  AdamW optimizer{.lr = 1e-2};
  const double first = loss_of(model).item();
  train(model, optimizer, 40);
  EXPECT_LT(loss_of(model).item(), first / 2);
}

// ---- state ----------------------------------------------------------------------------------------------------------

template <class Optimizer>
void expect_state_goes_round(const Optimizer& fresh) {
  Gpt straight = small_gpt();
  Optimizer one = fresh;
  train(straight, one, 4);
  Gpt stopped = small_gpt();
  Optimizer first = fresh;
  train(stopped, first, 2);
  Gpt resumed = small_gpt();
  load_state(resumed, state_dict(stopped));
  Optimizer second = fresh;
  second.load_state(first.state_dict());
  EXPECT_EQ(difference(second.state_dict(), first.state_dict()), "");
  train(stopped, first, 2);  // what was saved is not what goes on
  train(resumed, second, 2);
  EXPECT_EQ(difference(resumed, straight), "");
  EXPECT_EQ(difference(stopped, straight), "");
  EXPECT_EQ(difference(second.state_dict(), one.state_dict()), "");
}

TEST(AdamW, StateGoesRound) { expect_state_goes_round(AdamW{.lr = 1e-2}); }
TEST(Sgd, StateGoesRound) { expect_state_goes_round(Sgd{.lr = 1e-1, .momentum = 0.9, .dampening = 0.5}); }
TEST(Adam, StateGoesRound) { expect_state_goes_round(Adam{.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true}); }
TEST(RmsProp, StateGoesRound) { expect_state_goes_round(RmsProp{.lr = 1e-3, .momentum = 0.5, .centered = true}); }
TEST(Lion, StateGoesRound) { expect_state_goes_round(Lion{.lr = 1e-3, .weight_decay = 0.1}); }

TEST(AdamW, StateIsKeyedByName) {
  Two module = two(1, 1, DType::f32);
  AdamW optimizer;
  optimizer.step(module, two(2, 2, DType::f32));
  optimizer.step(module, two(2, 2, DType::f32));
  const StateDict state = optimizer.state_dict();
  ASSERT_EQ(state.size(), 6U);
  EXPECT_EQ(to_string(state.at("first_moment.w").shape()), "[2, 2]");
  EXPECT_EQ(state.at("second_moment.b").dtype(), DType::f32);
  EXPECT_NEAR(state.at("first_moment.b").at({0}), 2 * (1 - 0.81), 1e-6);
  EXPECT_EQ(state.at("steps.w").item(), 2);
}

TEST(Sgd, WithoutMomentumKeepsNothing) {
  Two module = two(1, 1);
  Sgd optimizer;
  optimizer.step(module, two(1, 1));
  EXPECT_TRUE(optimizer.state_dict().empty());
}

// ---- errors change nothing ------------------------------------------------------------------------------------------

template <class Optimizer>
void expect_refused(Optimizer optimizer, const Two& gradients, const std::string& sentence) {
  Two module = two(1, 2);
  const StateDict before = optimizer.state_dict();
  EXPECT_EQ(error_of([&] { optimizer.step(module, gradients); }), sentence);
  EXPECT_EQ(difference(module, two(1, 2)), "");
  EXPECT_EQ(difference(optimizer.state_dict(), before), "");
}

TEST(Optimizers, RefuseGradientsThatDoNotFit) {
  const Two good = two(1, 1);
  const auto sentence = [](const char* optimizer, const char* got) {
    return std::string(optimizer) + ": a gradient must have its parameter's shape and dtype; got " + got;
  };
  expect_refused(AdamW{}, {good.w, ones({2}, DType::f64)}, sentence("AdamW", "f64 [2] for b f64 [3]"));
  expect_refused(AdamW{}, {good.w, ones({3})}, sentence("AdamW", "f32 [3] for b f64 [3]"));
  expect_refused(AdamW{}, {good.w, {}}, sentence("AdamW", "none for b f64 [3]"));
  expect_refused(Sgd{}, {good.w, ones({2}, DType::f64)}, sentence("Sgd", "f64 [2] for b f64 [3]"));
  expect_refused(Sgd{.momentum = 0.9}, {good.w, {}}, sentence("Sgd", "none for b f64 [3]"));
}

TEST(Optimizers, RefuseStateThatDoesNotFit) {
  const Two good = two(1, 1);
  const Tensor w = zeros({2, 2}, DType::f64), b = zeros({3}, DType::f64), two_elements = zeros({2}, DType::f64);
  const auto adamw = [&](const Tensor& first, const Tensor& second) {
    AdamW optimizer;
    const Tensor steps = tensor(1, DType::f64);
    optimizer.load_state({{"first_moment.w", w},
                          {"second_moment.w", w},
                          {"steps.w", steps},
                          {"first_moment.b", first},
                          {"second_moment.b", second},
                          {"steps.b", steps}});
    return optimizer;
  };
  const std::string rest = ": the state must have its parameter's shape and dtype; got ";
  expect_refused(adamw(two_elements, two_elements), good, "AdamW" + rest + "f64 [2] for b f64 [3]");
  expect_refused(adamw(zeros({3}), zeros({3})), good, "AdamW" + rest + "f32 [3] for b f64 [3]");
  const std::string unequal = "AdamW: the state must be f32 or f64, of one shape and dtype; got ";
  EXPECT_EQ(error_of([&] { adamw(b, two_elements); }), unequal + "f64 [3] and f64 [2] for b");
  EXPECT_EQ(error_of([&] { adamw(b, zeros({3})); }), unequal + "f64 [3] and f32 [3] for b");
  Sgd sgd{.momentum = 0.9};
  sgd.load_state({{"momentum.w", w}, {"momentum.b", two_elements}});
  expect_refused(sgd, good, "Sgd" + rest + "f64 [2] for b f64 [3]");
}

TEST(Optimizers, RefuseGradientsOfAnotherStructure) {
  Init init;
  Linear with(init, {.in = 2, .out = 2});
  const Linear without(init, {.in = 2, .out = 2, .bias = false});
  const StateDict before = state_dict(with);
  const std::string rest = ": there must be a gradient for each parameter; got 1 for 2";
  EXPECT_EQ(error_of([&] { AdamW{}.step(with, without); }), "AdamW" + rest);
  EXPECT_EQ(error_of([&] { Adam{}.step(with, without); }), "Adam" + rest);
  EXPECT_EQ(error_of([&] { Sgd{}.step(with, without); }), "Sgd" + rest);
  EXPECT_EQ(error_of([&] { RmsProp{}.step(with, without); }), "RmsProp" + rest);
  EXPECT_EQ(error_of([&] { Lion{}.step(with, without); }), "Lion" + rest);
  EXPECT_EQ(difference(state_dict(with), before), "");
}

TEST(Optimizers, RefuseOptionsOutOfRange) {
  const Two good = two(1, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::string amount = " must be finite and not negative; got ", decay = " must be in [0, 1); got ";
  expect_refused(AdamW{.lr = nan}, good, "AdamW: lr" + amount + "nan");
  expect_refused(AdamW{.lr = -1}, good, "AdamW: lr" + amount + "-1");
  expect_refused(AdamW{.eps = -1e-8}, good, "AdamW: eps" + amount + "-1e-08");
  expect_refused(AdamW{.weight_decay = inf}, good, "AdamW: weight_decay" + amount + "inf");
  expect_refused(AdamW{.beta1 = 1}, good, "AdamW: beta1" + decay + "1");
  expect_refused(Adam{.beta2 = -0.5}, good, "Adam: beta2" + decay + "-0.5");
  expect_refused(Adam{.beta2 = nan}, good, "Adam: beta2" + decay + "nan");
  expect_refused(Sgd{.lr = inf}, good, "Sgd: lr" + amount + "inf");
  expect_refused(Sgd{.momentum = -0.9}, good, "Sgd: momentum" + amount + "-0.9");
  expect_refused(Sgd{.dampening = nan}, good, "Sgd: dampening" + amount + "nan");
  expect_refused(Sgd{.weight_decay = -1}, good, "Sgd: weight_decay" + amount + "-1");
  expect_refused(RmsProp{.lr = nan}, good, "RmsProp: lr" + amount + "nan");
  expect_refused(RmsProp{.alpha = 1}, good, "RmsProp: alpha" + decay + "1");
  expect_refused(RmsProp{.eps = nan}, good, "RmsProp: eps" + amount + "nan");
  expect_refused(RmsProp{.weight_decay = -1}, good, "RmsProp: weight_decay" + amount + "-1");
  expect_refused(RmsProp{.momentum = inf}, good, "RmsProp: momentum" + amount + "inf");
  expect_refused(Lion{.lr = -1}, good, "Lion: lr" + amount + "-1");
  expect_refused(Lion{.beta1 = 2}, good, "Lion: beta1" + decay + "2");
  expect_refused(Lion{.beta2 = 1}, good, "Lion: beta2" + decay + "1");
  expect_refused(Lion{.weight_decay = nan}, good, "Lion: weight_decay" + amount + "nan");
}

TEST(Optimizers, TakeOptionsAtTheEndsOfTheirRange) {
  Two module = two(1, 1);
  AdamW{.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0}.step(module, two(1, 1));
  Sgd{.lr = 0}.step(module, two(1, 1));
  RmsProp{.lr = 0, .alpha = 0, .eps = 0}.step(module, two(1, 1));
  Lion{.lr = 0, .beta1 = 0, .beta2 = 0}.step(module, two(1, 1));
  EXPECT_EQ(difference(module, two(1, 1)), "");
}

TEST(Optimizers, RefuseIncompleteState) {
  AdamW adamw;
  const Tensor x = zeros({2});
  const std::string adam = "AdamW: the state must hold first_moment, second_moment, steps for each name; got ";
  EXPECT_EQ(error_of([&] {
              adamw.load_state({{"first_moment.w", x}, {"second_moment.w", x}});
            }),
            adam + "no steps for w");
  EXPECT_EQ(error_of([&] {
              adamw.load_state({{"first_moment.w", x}, {"second_moment.b", x}, {"steps.w", tensor(1)}});
            }),
            adam + "no second_moment for w");
  EXPECT_EQ(error_of([&] { adamw.load_state({{"momentum.w", x}}); }), adam + "1 tensors of other names");
  EXPECT_EQ(error_of([&] {
              adamw.load_state({{"first_moment.w", x}, {"second_moment.w", Tensor()}, {"steps.w", tensor(1)}});
            }),
            "AdamW: the state must hold values; got an empty handle for second_moment.w");
  EXPECT_TRUE(adamw.state.empty());
  Sgd sgd{.momentum = 0.9};
  EXPECT_EQ(error_of([&] {
              sgd.load_state({{"momentum.w", x}, {"first_moment.w", x}});
            }),
            "Sgd: the state must hold momentum for each name; got 1 tensors of other names");
  EXPECT_EQ(error_of([&] {
              Sgd().load_state({{"momentum.w", x}});
            }),
            "Sgd: the state must hold nothing for each name; got 1 tensors of other names");
  EXPECT_TRUE(sgd.state.empty());
}

TEST(Optimizers, StateOfOtherOptionsIsRefused) {
  Two module = two(1, 1);
  RmsProp optimizer;
  optimizer.step(module, two(1, 1));
  RmsProp centered{.centered = true};
  EXPECT_EQ(error_of([&] { centered.load_state(optimizer.state_dict()); }),
            "RmsProp: the state must hold square_average, average for each name; got no average for b");
  optimizer.centered = true;
  EXPECT_EQ(
      error_of([&] { optimizer.step(module, two(1, 1)); }),
      "RmsProp: the state must hold 2 tensors for each parameter, as these options want; got 1 for w; load a state "
      "that was saved with the same options");
}

TEST(Optimizer, AParameterThatIsNoFloatIsRefusedBeforeAnythingChanges) {
  using List = std::vector<Tensor>;
  List parameters{tensor({1, 2}), tensor({1, 2}, DType::i32)};
  const List gradients{tensor({1, 1}), tensor({1, 1}, DType::i32)};
  EXPECT_EQ(error_of([&] { Sgd{}.step(parameters, gradients); }), "Sgd: a parameter must be f32 or f64; got i32 for 1");
  EXPECT_EQ(error_of([&] { AdamW{}.step(parameters, gradients); }),
            "AdamW: a parameter must be f32 or f64; got i32 for 1");
  expect_exactly(parameters[0], {2}, {1, 2});
  expect_exactly(parameters[1], {2}, {1, 2});
}

TEST(AdamW, StepsThatAreNoCountAreRefusedOnLoading) {
  for (const double steps : {std::numeric_limits<double>::quiet_NaN(), 1e300, -1.0, 2.5}) {
    const StateDict saved{{"first_moment.w", tensor({0.0})},
                          {"second_moment.w", tensor({0.0})},
                          {"steps.w", full({}, steps, DType::f64)}};
    EXPECT_NE(error_of([&] { AdamW{}.load_state(saved); }).find("AdamW: steps must be a whole number"),
              std::string::npos)
        << steps;
  }
}

}  // namespace
}  // namespace capstan::nn
