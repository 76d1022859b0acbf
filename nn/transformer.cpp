#include <capstan/autograd/checkpoint.h>
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/nn/transformer.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/linear_cross_entropy.h>
#include <capstan/ops/rearrange.h>

#include <cmath>

namespace capstan::nn {

Block::Block(Init& init, const Config& config)
    : attention_norm(init, {.width = config.width, .bias = config.bias}),
      attention(init, {.width = config.width,
                       .heads = config.heads,
                       .bias = config.bias,
                       .deviation = config.deviation,
                       .residual_deviation = config.residual_deviation,
                       .kernel = config.kernel}),
      mlp_norm(init, {.width = config.width, .bias = config.bias}),
      mlp(init, {.width = config.width,
                 .hidden = config.hidden,
                 .bias = config.bias,
                 .deviation = config.deviation,
                 .residual_deviation = config.residual_deviation}) {}

namespace {
Tensor sum_of(const ResidualStream& stream) { return stream.branch.defined() ? stream.x + stream.branch : stream.x; }
}  // namespace

ResidualStream Block::operator()(ResidualStream stream, const Mask& mask) const {
  stream.branch = attention(attention_norm(stream), mask);
  stream.branch = mlp(mlp_norm(stream));
  return stream;
}

ResidualStream Block::operator()(ResidualStream stream, KeyValueCache& cache) const {
  stream.branch = attention(attention_norm(stream), cache);
  stream.branch = mlp(mlp_norm(stream));
  return stream;
}

Tensor Block::operator()(const Tensor& x, const Mask& mask) const { return sum_of((*this)(ResidualStream{x}, mask)); }

Tensor Block::operator()(const Tensor& x, KeyValueCache& cache) const {
  return sum_of((*this)(ResidualStream{x}, cache));
}

namespace {
/// All that a block's output depends on.
struct BlockCall {
  Tensor x;
  Block block;
  static void fields(auto& self, auto& f) {
    f("x", self.x);
    f("block", self.block);
  }
};

constexpr double initial_deviation = 0.02;

const Gpt::Config& checked(const Gpt::Config& config) {
  if (config.vocab <= 0 || config.context <= 0 || config.width <= 0 || config.blocks < 0)
    fail("Gpt: vocab, context and width must be positive and blocks not negative; got {}, {}, {} and {}", config.vocab,
         config.context, config.width, config.blocks);
  return config;
}
}  // namespace

Gpt::Gpt(Init& init, const Config& config_) : Gpt(init, config_, init.made) {}

Gpt::Gpt(Init& init, const Config& config_, Index made_before)
    : config(checked(config_)),
      tokens(init, {.rows = config.vocab, .width = config.width, .deviation = initial_deviation}),
      positions(init, {.rows = config.context, .width = config.width, .deviation = initial_deviation}),
      norm(init, {.width = config.width, .bias = config.bias}) {
  const double residual = initial_deviation / std::sqrt(2.0 * static_cast<double>(std::max<Index>(config.blocks, 1)));
  for (Index i = 0; i < config.blocks; ++i)
    blocks.emplace_back(init, Block::Config{.width = config.width,
                                            .heads = config.heads,
                                            .hidden = config.hidden,
                                            .bias = config.bias,
                                            .deviation = initial_deviation,
                                            .residual_deviation = residual,
                                            .kernel = config.kernel});
  name_parameters(*this, init, made_before);
}

Tensor Gpt::embedded(const Tensor& ids, Index start) const {
  if (ids.rank() != 2) fail("Gpt: ids must be [B, T]; got {}", ids.shape());
  const Index stop = start + ids.shape()[1];
  if (stop > config.context)
    fail(
        "Gpt: a sequence must have at most {} tokens, the context; got {}; pass its last tokens or raise "
        "Config::context",
        config.context, stop);
  return tokens(ids) + positions(slice(arange(stop), 0, start, stop));
}

Tensor Gpt::hidden(const Tensor& ids, const Mask& mask) const {
  ResidualStream stream{embedded(ids, 0)};
  for (const Block& block : blocks) {
    if (config.checkpoint) {  // keeps a sum, not its two parts
      stream = {checkpoint(BlockCall{stream.x, block}, [mask](const BlockCall& c) { return c.block(c.x, mask); })};
    } else {
      stream = block(std::move(stream), mask);
    }
  }
  return norm(stream);
}

Tensor Gpt::operator()(const Tensor& ids, const Mask& mask) const {
  return linear(hidden(ids, mask), tokens.table, Tensor());
}

Tensor Gpt::loss(const Tensor& ids, const Tensor& targets, const CrossEntropyOptions& options, const Mask& mask) const {
  return linear_cross_entropy(hidden(ids, mask), tokens.table, targets, options);
}

Tensor Gpt::operator()(const Tensor& ids, ModelCache& cache) const {
  ResidualStream stream{embedded(ids, cache.length)};
  ModelCache longer = cache;  // the caller's stays as it was if something throws
  longer.length += ids.size(1);
  longer.blocks.resize(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) stream = blocks[i](std::move(stream), longer.blocks[i]);
  const Tensor logits = linear(norm(stream), tokens.table, Tensor());
  cache = std::move(longer);
  return logits;
}

}  // namespace capstan::nn
