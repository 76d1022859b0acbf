// Same bytes for any thread count: 100 training steps, loss and parameters, at a size where every threaded kernel of a
// training step did run on several threads; and again with dropout, in attention and on the residual stream.
#include <capstan/nn/nn.h>
#include <capstan/ops/kernels/parallel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/sanitized.h"

namespace capstan {
namespace {

using kernels::Region;
using nn::AttentionKernel;
constexpr Region regions[] = {Region::gemm,       Region::elementwise,   Region::copy,      Region::reduce,
                              Region::layer_norm, Region::cross_entropy, Region::embedding, Region::optimizer};

Tensor random_ids(Key key, const Shape& shape, std::uint64_t vocab) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < shape.elements(); ++i) ids.push_back(static_cast<std::int32_t>(uniform_int(key, i, vocab)));
  return tensor(ids, shape);
}

/// A block whose fused attention drops weights, and whose residual stream drops features, by the keys of one step.
struct DroppingGpt {
  static constexpr Index heads = 4;
  static constexpr double p = 0.1;
  nn::Gpt gpt;

  explicit DroppingGpt(nn::Init& init)
      : gpt(init, {.vocab = 256, .context = 64, .width = 128, .heads = heads, .blocks = 1}) {}
  Tensor operator()(const Tensor& ids, Key key) const {
    const nn::Block& block = gpt.blocks[0];
    Tensor x = dropout(gpt.tokens(ids) + gpt.positions(arange(ids.shape()[1])), p, key.derive(0));
    x = x + dropout(attend(block.attention, block.attention_norm(x), key.derive(1)), p, key.derive(2));
    x = x + dropout(block.mlp(block.mlp_norm(x)), p, key.derive(3));
    return matmul(gpt.norm(x), transpose(gpt.tokens.table));
  }
  static void fields(auto& self, auto& f) { f("gpt", self.gpt); }

 private:
  static Tensor attend(const nn::MultiHeadAttention& layer, const Tensor& x, Key key) {
    const auto split = [&](const Tensor& y) {  // [B, T, C] → [B, H, T, D]
      const Shape& shape = y.shape();
      return permute(reshape(y, Shape{shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
    };
    const Tensor mixed = attention(split(layer.query(x)), split(layer.key(x)), split(layer.value(x)),
                                   {.mask = Mask::causal(), .dropout = Dropout{p, key}})
                             .output;
    return layer.project(reshape(permute(mixed, {0, 2, 1, 3}), x.shape()));
  }
};

Tensor logits(const nn::Gpt& model, const Tensor& ids, Key) { return model(ids); }
Tensor logits(const DroppingGpt& model, const Tensor& ids, Key key) { return model(ids, key); }

/// The bytes of all losses and then of all parameters.
template <class Model>
std::vector<float> train(Model model, int threads, int steps) {
  kernels::set_thread_count(threads);
  nn::AdamW optimizer{.lr = 1e-3};
  std::vector<float> bytes;
  for (int step = 0; step < steps; ++step) {
    const Key key = Key{.seed = 5}.derive(static_cast<std::uint64_t>(step));
    const Tensor ids = random_ids(key.derive(0), {8, 64}, 256), targets = random_ids(key.derive(1), {8, 64}, 256);
    auto [loss, gradients] =
        value_and_grad(model, [&](const Model& m) { return cross_entropy(logits(m, ids, key.derive(2)), targets); });
    nn::clip_gradient_norm(gradients, 1);
    optimizer.step(model, gradients);
    bytes.push_back(static_cast<float>(loss.item()));
  }
  for_each_tensor(model, [&](const Tensor& x) {
    for (const float value : x.to_vector<float>()) bytes.push_back(value);
  });
  return bytes;
}

template <class Model>
void expect_same_bytes(const Model& model, std::initializer_list<Region> more, int steps) {
  const int before = kernels::thread_count();
  std::vector<Region> all(std::begin(regions), std::end(regions));
  all.insert(all.end(), more);
  const std::vector<float> one = train(model, 1, steps);
  for (const int threads : {2, 4}) {
    std::vector<std::uint64_t> counted;
    for (const Region region : all) counted.push_back(kernels::parallel_regions(region));
    const std::vector<float> many = train(model, threads, steps);
    ASSERT_EQ(one.size(), many.size());
    EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0) << threads << " threads";
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t ran = kernels::parallel_regions(all[i]) - counted[i];
      EXPECT_GT(ran, 0u) << kernels::name_of(all[i]) << " never ran in parallel";
      testing::Test::RecordProperty(std::string("parallel_") + kernels::name_of(all[i]), std::to_string(ran));
    }
  }
  kernels::set_thread_count(before);
}

/// What sanitizers look for shows in the first steps, each of which takes them a second and more.
constexpr int steps_enough = test::sanitized ? 10 : 100;

nn::Gpt small_gpt(AttentionKernel kernel) {
  nn::Init init{.seed = 3};
  return {init, {.vocab = 256, .context = 64, .width = 128, .heads = 4, .blocks = 1, .kernel = kernel}};
}

TEST(Determinism, LossesAndParametersHaveTheSameBytesForOneTwoAndFourThreads) {
  expect_same_bytes(small_gpt(AttentionKernel::fused), {Region::attention}, steps_enough);
}

TEST(Determinism, SoDoThoseOfTheReferenceAttention) {
  expect_same_bytes(small_gpt(AttentionKernel::reference), {Region::softmax}, test::sanitized ? 5 : 20);
}

TEST(Determinism, SoDoThoseOfFusedAttentionWithDropoutInItAndAroundIt) {
  nn::Init init{.seed = 3};
  expect_same_bytes(DroppingGpt(init), {Region::attention, Region::random}, steps_enough);
}

}  // namespace
}  // namespace capstan
