// Memory of a training step: after the first everything comes from the pool's cache, and nothing piles up.
#include <capstan/autograd/memory_profile.h>
#include <capstan/autograd/pool.h>
#include <capstan/nn/nn.h>
#include <capstan/ops/kernels/parallel.h>
#include <gtest/gtest.h>

#include "support/upstream.h"

namespace capstan::nn {
namespace {

/// A small Gpt and what it learns from.
struct Training {
  Init init{.seed = 1};
  Gpt model;
  AdamW optimizer{.lr = 1e-3};
  Tensor ids, targets;

  explicit Training(const Gpt::Config& config)
      : model(init, config), ids(random_ids(2, config)), targets(random_ids(3, config)) {}

  static Tensor random_ids(std::uint64_t seed, const Gpt::Config& config) {
    std::vector<std::int32_t> ids;
    for (Index i = 0; i < 4 * config.context; ++i)
      ids.push_back(static_cast<std::int32_t>(uniform_int({.seed = seed}, i, static_cast<std::uint64_t>(config.vocab))));
    return tensor(ids, {4, config.context});
  }
  void step() {
    auto [loss, gradients] = value_and_grad(model, [&](const Gpt& m) { return cross_entropy(m(ids), targets); });
    clip_gradient_norm(gradients, 1);
    optimizer.step(model, gradients);
  }
};

class TrainingMemory : public testing::TestWithParam<AttentionKernel> {
 protected:
  // On one thread, so that it is the same thread that wants a kernel's scratch memory again.
  TrainingMemory() : before_(kernels::thread_count()) { kernels::set_thread_count(1); }
  ~TrainingMemory() override { kernels::set_thread_count(before_); }
  Gpt::Config config() const {
    return {.vocab = 65, .context = 32, .width = 64, .heads = 2, .blocks = 2, .kernel = GetParam()};
  }

 private:
  int before_;
};
INSTANTIATE_TEST_SUITE_P(Attention, TrainingMemory,
                         testing::Values(AttentionKernel::fused, AttentionKernel::reference));

TEST_P(TrainingMemory, FromTheSecondStepOnNothingIsAskedOfTheUpstream) {
  test::CountingUpstream upstream;
  Training training(config());
  training.step();
  const std::size_t asked = upstream.allocations(), held = upstream.bytes();
  EXPECT_GT(asked, 0u);
  for (int i = 0; i < 4; ++i) training.step();
  if (pool_is_exact()) {
    EXPECT_GT(upstream.allocations(), 2 * asked);  // nothing is cached
  } else {
    EXPECT_EQ(upstream.allocations(), asked);
  }
  EXPECT_EQ(upstream.bytes(), held);
}

TEST_P(TrainingMemory, OneOptimiserAfterTheOtherTakesTheSameMemory) {
  test::CountingUpstream upstream;
  Training training(config());
  const auto held_after = [&](int optimisers) {
    for (int i = 0; i < optimisers; ++i) {
      training.optimizer = AdamW{.lr = 1e-3};
      training.step();
    }
    return upstream.bytes();
  };
  const std::size_t held = held_after(2);
  EXPECT_EQ(held_after(10), held);
}

TEST_P(TrainingMemory, AStepLeavesParametersAndTheOptimizersStateOnly) {
  Training training(config());
  training.step();
  MemoryProfile profile;
  training.step();
  EXPECT_GT(profile.peak(), 0);
  EXPECT_EQ(profile.live(), 0) << to_string(profile);
}

}  // namespace
}  // namespace capstan::nn
