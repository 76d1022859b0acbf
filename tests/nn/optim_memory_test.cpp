// What optimisers do when memory runs out in the middle of a step: nothing is lost.
#include <capstan/autograd/pool.h>
#include <capstan/nn/nn.h>
#include <gtest/gtest.h>

#include "support/states.h"
#include "support/two.h"
#include "support/upstream.h"

namespace capstan::nn {
namespace {

using test::same_bits;
using test::Two;

/// Large enough that no block of it is cached.
Two large(double w, double b) { return {full({300, 300}, w, DType::f64), full({70'000}, b, DType::f64)}; }

/// A step whose memory is shared, so that each tensor of it is copied, runs out of memory at every point where it can.
/// Nothing is lost: what was not updated is what it was, and the steps go on as if nothing had been.
template <class Optimizer>
void expect_survives_without_memory(const Optimizer& fresh) {
  const Two gradients = large(0.5, -0.5);
  Two want = large(1, 1);
  Optimizer straight = fresh;
  for (int i = 0; i < 2; ++i) straight.step(want, gradients);

  bool succeeded = false;
  for (std::size_t allowed = 0; !succeeded; ++allowed) {
    ASSERT_LT(allowed, 1000U);
    Two module = large(1, 1);
    Optimizer optimizer = fresh;
    optimizer.step(module, gradients);
    const Two before = module;
    const StateDict state = optimizer.state_dict();
    {
      pool_trim();
      test::CountingUpstream upstream;
      upstream.refuse_after(allowed);
      try {
        optimizer.step(module, gradients);
        succeeded = true;
      } catch (const std::bad_alloc&) {}
    }
    for_each_tensor(module, [&](const Tensor& x) { ASSERT_TRUE(x.defined()) << allowed; });
    for (const auto& [name, x] : optimizer.state_dict()) ASSERT_TRUE(x.defined()) << name << " " << allowed;
    // The parameters that were not reached take their step with the state that they had.
    const Two old = before;
    for (const std::string name : {"w", "b"}) {
      const Tensor &now = name == "w" ? module.w : module.b, &then = name == "w" ? old.w : old.b;
      const bool moved = !same_bits(now, then);
      EXPECT_TRUE(!moved || same_bits(now, name == "w" ? want.w : want.b)) << name << " " << allowed;
      for (const auto& [entry, x] : optimizer.state_dict())
        if (entry.ends_with("." + name) && !moved) { EXPECT_TRUE(same_bits(x, state.at(entry))) << entry; }
    }
  }
}

TEST(Optimizers, LoseNothingWhenMemoryRunsOut) {
  expect_survives_without_memory(AdamW{.lr = 0.1, .amsgrad = true});
  expect_survives_without_memory(Sgd{.lr = 0.1, .momentum = 0.9});
  expect_survives_without_memory(RmsProp{.lr = 0.1, .momentum = 0.9, .centered = true});
  expect_survives_without_memory(Lion{.lr = 0.1});
}

TEST(Optimizers, AFirstStepWithoutMemoryIsNoStep) {
  bool succeeded = false;
  int prepared = 0;  // cases in which the state was made and then the parameter could not be copied
  for (std::size_t allowed = 0; !succeeded; ++allowed) {
    ASSERT_LT(allowed, 1000U);
    Two module = large(1, 1);
    const Two shared = module;
    Sgd optimizer{.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
    const Two gradients = large(1, 1);
    {
      pool_trim();
      test::CountingUpstream upstream;
      upstream.refuse_after(allowed);
      try {
        optimizer.step(module, gradients);
        succeeded = true;
      } catch (const std::bad_alloc&) {}
    }
    if (module.w.at({0, 0}) != 1) continue;
    prepared += optimizer.state.contains("w");
    EXPECT_TRUE(optimizer.state_dict().empty());
    optimizer.step(module, gradients);
    EXPECT_EQ(module.w.at({0, 0}), 0.9);  // a first step: without dampening
  }
  EXPECT_GT(prepared, 0);
}

}  // namespace
}  // namespace capstan::nn
