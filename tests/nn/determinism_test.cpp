// Same bytes for any thread count: 100 training steps, loss and parameters, at a size where every threaded kernel of a
// training step did run on several threads.
#include <capstan/nn/nn.h>
#include <capstan/ops/kernels/parallel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

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

/// The bytes of all losses and then of all parameters.
std::vector<float> train(int threads, int steps, AttentionKernel kernel) {
  kernels::set_thread_count(threads);
  nn::Init init{.seed = 3};
  nn::Gpt model(init, {.vocab = 256, .context = 64, .width = 128, .heads = 4, .blocks = 1, .kernel = kernel});
  nn::AdamW optimizer{.lr = 1e-3};
  std::vector<float> bytes;
  for (int step = 0; step < steps; ++step) {
    const Key key = Key{.seed = 5}.derive(static_cast<std::uint64_t>(step));
    const Tensor ids = random_ids(key.derive(0), {8, 64}, 256), targets = random_ids(key.derive(1), {8, 64}, 256);
    auto [loss, gradients] = value_and_grad(model, [&](const nn::Gpt& m) { return cross_entropy(m(ids), targets); });
    nn::clip_gradient_norm(gradients, 1);
    optimizer.step(model, gradients);
    bytes.push_back(static_cast<float>(loss.item()));
  }
  for_each_tensor(model, [&](const Tensor& x) {
    for (const float value : x.to_vector<float>()) bytes.push_back(value);
  });
  return bytes;
}

void expect_same_bytes(AttentionKernel kernel, Region of_attention, int steps) {
  const int before = kernels::thread_count();
  std::vector<Region> all(std::begin(regions), std::end(regions));
  all.push_back(of_attention);
  const std::vector<float> one = train(1, steps, kernel);
  for (const int threads : {2, 4}) {
    std::vector<std::uint64_t> counted;
    for (const Region region : all) counted.push_back(kernels::parallel_regions(region));
    const std::vector<float> many = train(threads, steps, kernel);
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

TEST(Determinism, LossesAndParametersHaveTheSameBytesForOneTwoAndFourThreads) {
  expect_same_bytes(AttentionKernel::fused, Region::attention, 100);
}

TEST(Determinism, SoDoThoseOfTheReferenceAttention) {
  expect_same_bytes(AttentionKernel::reference, Region::softmax, 20);
}

}  // namespace
}  // namespace capstan
