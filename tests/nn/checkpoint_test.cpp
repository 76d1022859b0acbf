// Recomputation in models: Gpt's Config::checkpoint gives the same bits with less memory; transforms on modules. The function
// itself: tests/autograd/checkpoint_test.cpp. (Files of weights: tests/nn/io.)
#include <capstan/autograd/checkpoint.h>
#include <capstan/autograd/pool.h>
#include <capstan/nn/nn.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/states.h"
#include "support/upstream.h"

namespace capstan::nn {
namespace {

using test::difference;
using test::same_bits;

Gpt six_blocks(bool checkpoint, DType dtype = DType::f32, Index blocks = 6) {
  Init init{.seed = 3, .dtype = dtype};
  return Gpt(init, {.vocab = 31, .context = 32, .width = 32, .heads = 4, .blocks = blocks, .checkpoint = checkpoint});
}

Tensor ids(std::uint64_t stream, Index batch = 2) {
  std::vector<std::int32_t> list;
  for (Index i = 0; i < batch * 32; ++i)
    list.push_back(static_cast<std::int32_t>(uniform_int(Key{.seed = 1, .stream = stream}, i, 31)));
  return tensor(list, {batch, 32});
}
Tensor loss_of(const Gpt& model) { return cross_entropy(model(ids(1)), ids(2)); }

TEST(GptCheckpoint, GradientsHaveTheSameBits) {
  const auto [value, gradients] = value_and_grad(six_blocks(false), loss_of);
  const auto [value2, gradients2] = value_and_grad(six_blocks(true), loss_of);
  EXPECT_TRUE(same_bits(value, value2));
  EXPECT_EQ(difference(gradients, gradients2), "");
  EXPECT_GT(count_tensors(gradients), 90);
}

TEST(GptCheckpoint, SoDoesTraining) {
  const auto train = [](bool checkpoint) {
    Gpt model = six_blocks(checkpoint, DType::f32, 2);
    AdamW optimizer{.lr = 1e-2};
    for (int i = 0; i < 3; ++i) optimizer.step(model, value_and_grad(model, loss_of).gradient);
    return state_dict(model);
  };
  EXPECT_EQ(difference(train(true), train(false)), "");
}

TEST(GptCheckpoint, KeepsAndUsesMuchLessMemory) {
  struct Use {
    Index saved;
    std::size_t peak;
  };
  const auto use = [](bool checkpoint) {
    const Gpt model = six_blocks(checkpoint);
    const Tensor x = ids(1, 4), y = ids(2, 4);  // enough of them to count beside the weights, which are kept too
    pool_trim();
    test::CountingUpstream upstream;
    Tape tape;
    const Gpt watched = watch(tape, model);
    const Tensor loss = cross_entropy(watched(x), y);
    const Index saved = tape.saved_bytes();
    tape.backward(loss);
    return Use{saved, upstream.peak_bytes()};
  };
  const Use without = use(false), with = use(true);
  EXPECT_LT(with.saved, without.saved / 3);
  EXPECT_LT(with.peak, without.peak * 6 / 10);
  RecordProperty("saved", std::to_string(without.saved) + " -> " + std::to_string(with.saved));
  RecordProperty("peak", std::to_string(without.peak) + " -> " + std::to_string(with.peak));
}

TEST(GptCheckpoint, SecondOrder) {
  const auto product = [](bool checkpoint) {
    const Gpt model = six_blocks(checkpoint, DType::f64, 2);
    Gpt v = model;
    std::uint64_t stream = 0;
    for_each_tensor(v, [&](Tensor& x) { x = normal(Key{.seed = 8, .stream = stream++}, x.shape(), 0, 1, DType::f64); });
    return state_dict(hvp(model, loss_of, v));
  };
  const StateDict want = product(false), got = product(true);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, x] : want) test::expect_near(got.at(name), x.shape(), x.to_doubles(), 1e-11);
}

// ---- transforms on modules ---------------------------------------------------------------------------------------------

TEST(HvpOfAModule, IsTheDifferenceOfGradients) {
  Init init{.seed = 5, .dtype = DType::f64};
  const Mlp model(init, {.width = 3, .hidden = 4});
  const Tensor x = normal(Key{.seed = 6}, {2, 3}, 0, 1, DType::f64);
  const auto loss = [&](const Mlp& m) { return sum(m(x) * m(x)); };
  Mlp v = model;
  std::uint64_t stream = 0;
  for_each_tensor(v, [&](Tensor& p) { p = normal(Key{.seed = 7, .stream = stream++}, p.shape(), 0, 1, DType::f64); });
  const StateDict got = state_dict(hvp(model, loss, v)), direction = state_dict(v);
  const auto moved = [&](double h) {
    StateDict state = state_dict(model);
    for (auto& [name, p] : state) p = p + h * direction.at(name);
    Mlp at = model;
    load_state(at, state);
    return state_dict(grad(at, loss));
  };
  const StateDict up = moved(1e-3), down = moved(-1e-3), up2 = moved(2e-3), down2 = moved(-2e-3);
  ASSERT_EQ(got.size(), 4U);
  for (const auto& [name, h] : got) {
    const Tensor want =
        (8.0 * (up.at(name) - down.at(name)) - (up2.at(name) - down2.at(name))) / tensor(12e-3, DType::f64);
    test::expect_near(h, want.shape(), want.to_doubles(), 1e-8);
  }
}

TEST(JvpOfAModule, IsTheSumOverItsGradients) {
  Init init{.seed = 5, .dtype = DType::f64};
  const Linear model(init, {.in = 3, .out = 2});
  const Tensor x = normal(Key{.seed = 6}, {3}, 0, 1, DType::f64);
  // Along a direction w', b': w' x + b'.
  const Linear t = model;
  const auto call = [&](const Linear& m) { return m(reshape(x, {1, 3})); };
  const auto [value, tangent] = jvp(model, call, t);
  EXPECT_EQ(tangent.to_doubles(), value.to_doubles());  // linear in the parameters
}

}  // namespace
}  // namespace capstan::nn
