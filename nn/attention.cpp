#include <capstan/autograd/format.h>
#include <capstan/nn/attention.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/rotary.h>

namespace capstan::nn {

namespace {

void check_sequence(const char* module, const char* name, const Tensor& x, Index width) {
  if (x.rank() != 3 || x.shape()[2] != width) fail("{}: {} must be [B, T, {}]; got {}", module, name, width, x.shape());
}

/// [B, T, H·D] → [B, H, T, D]
Tensor split_heads(const Tensor& x, Index heads) {
  const Shape& shape = x.shape();
  return permute(reshape(x, Shape{shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

/// [B, H, T, D] → [B, T, H·D]
Tensor join_heads(const Tensor& x) {
  const Shape& shape = x.shape();
  return reshape(permute(x, {0, 2, 1, 3}), Shape{shape[0], shape[2], shape[1] * shape[3]});
}

/// Attention whose weights nobody asks for.
Tensor mix(AttentionKernel kernel, const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask) {
  return kernel == AttentionKernel::fused ? attention(q, k, v, {.mask = mask}).output
                                          : attention_reference(q, k, v, {.mask = mask}).output;
}

const SingleHeadAttention::Config& checked(const SingleHeadAttention::Config& config) {
  if (config.d_model <= 0 || config.d_k <= 0 || config.d_v <= 0)
    fail("SingleHeadAttention: d_model, d_k and d_v must be positive; got {}, {} and {}", config.d_model, config.d_k,
         config.d_v);
  return config;
}

const MultiHeadAttention::Config& checked(const MultiHeadAttention::Config& config) {
  const Index kv_heads = config.kv_heads > 0 ? config.kv_heads : config.heads;
  if (config.width <= 0 || config.heads <= 0 || config.width % config.heads != 0)
    fail("MultiHeadAttention: width must be a positive multiple of heads; got width {} and heads {}", config.width,
         config.heads);
  if (config.kv_heads < 0) fail("MultiHeadAttention: kv_heads must not be negative; got {}", config.kv_heads);
  if (config.heads % kv_heads != 0)
    fail("MultiHeadAttention: heads must be a multiple of kv_heads; got heads {} and kv_heads {}", config.heads,
         kv_heads);
  if (config.rotary != Rotary::none && config.width / config.heads % 2 != 0)
    fail("MultiHeadAttention: rotary needs an even head size; got width {} and heads {}", config.width, config.heads);
  return config;
}

}  // namespace

SingleHeadAttention::SingleHeadAttention(Init& init, const Config& config)
    : kernel(config.kernel),
      query(init,
            {.in = checked(config).d_model, .out = config.d_k, .bias = config.bias, .deviation = config.deviation}),
      key(init, {.in = config.d_model, .out = config.d_k, .bias = config.bias, .deviation = config.deviation}),
      value(init, {.in = config.d_model, .out = config.d_v, .bias = config.bias, .deviation = config.deviation}) {}

Tensor SingleHeadAttention::operator()(const Tensor& x, const Mask& mask) const {
  check_sequence("SingleHeadAttention", "x", x, query.weight.shape()[1]);
  return join_heads(mix(kernel, split_heads(query(x), 1), split_heads(key(x), 1), split_heads(value(x), 1), mask));
}

AttentionResult SingleHeadAttention::attend(const Tensor& x, const Tensor& memory, const Mask& mask) const {
  check_sequence("SingleHeadAttention", "x", x, query.weight.shape()[1]);
  check_sequence("SingleHeadAttention", "memory", memory, key.weight.shape()[1]);
  AttentionResult result = attention_reference(split_heads(query(x), 1), split_heads(key(memory), 1),
                                               split_heads(value(memory), 1), {.mask = mask});
  result.output = join_heads(result.output);
  return result;
}

MultiHeadAttention::MultiHeadAttention(Init& init, const Config& config)
    : heads(checked(config).heads),
      kv_heads(config.kv_heads > 0 ? config.kv_heads : config.heads),
      rotary(config.rotary),
      rotary_base(config.rotary_base),
      kernel(config.kernel),
      query(init, {.in = config.width, .out = config.width, .bias = config.bias, .deviation = config.deviation}),
      key(init, {.in = config.memory_width > 0 ? config.memory_width : config.width,
                 .out = config.width / config.heads * kv_heads,
                 .bias = config.bias,
                 .deviation = config.deviation}),
      value(init, {.in = config.value_width > 0    ? config.value_width
                         : config.memory_width > 0 ? config.memory_width
                                                   : config.width,
                   .out = config.width / config.heads * kv_heads,
                   .bias = config.bias,
                   .deviation = config.deviation}),
      project(init, {.in = config.width,
                     .out = config.width,
                     .bias = config.bias,
                     .deviation = config.residual_deviation ? config.residual_deviation : config.deviation}) {}

Tensor MultiHeadAttention::placed(const Tensor& x, Index count, Index start) const {
  const Tensor split = split_heads(x, count);
  switch (rotary) {
    case Rotary::none: break;
    case Rotary::half_split: return rotary_half_split(split, {.start = start, .base = rotary_base});
    case Rotary::adjacent_pairs: return rotary_adjacent_pairs(split, {.start = start, .base = rotary_base});
  }
  return split;
}

MultiHeadAttention::Operands MultiHeadAttention::operands(const Tensor& x, const Tensor& keys,
                                                          const Tensor& values) const {
  check_sequence("MultiHeadAttention", "x", x, query.weight.shape()[1]);
  check_sequence("MultiHeadAttention", "memory of keys", keys, key.weight.shape()[1]);
  check_sequence("MultiHeadAttention", "memory of values", values, value.weight.shape()[1]);
  return {placed(query(x), heads), placed(key(keys), kv_heads), split_heads(value(values), kv_heads)};
}

MultiHeadAttention::Operands MultiHeadAttention::operands(const Tensor& x, const KeyValueCache& cache,
                                                          KeyValueCache& longer) const {
  check_sequence("MultiHeadAttention", "x", x, query.weight.shape()[1]);
  const Index start = cache.length();
  longer = cache;
  longer.append(placed(key(x), kv_heads, start), split_heads(value(x), kv_heads));
  return {placed(query(x), heads, start), longer.keys, longer.values};
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& memory, const Mask& mask) const {
  const Operands in = operands(x, memory, memory);
  return project(join_heads(mix(kernel, in.q, in.k, in.v, mask)));
}

Tensor MultiHeadAttention::operator()(const Tensor& x, KeyValueCache& cache, const Mask& mask) const {
  KeyValueCache longer;  // the caller's stays as it was if something throws
  const Operands in = operands(x, cache, longer);
  Tensor output = project(join_heads(mix(kernel, in.q, in.k, in.v, mask)));
  cache = std::move(longer);
  return output;
}

AttentionResult MultiHeadAttention::attend(const Tensor& x, const Tensor& keys, const Tensor& values,
                                           const Mask& mask) const {
  const Operands in = operands(x, keys, values);
  AttentionResult result = attention_reference(in.q, in.k, in.v, {.mask = mask});
  result.output = project(join_heads(result.output));
  return result;
}

AttentionResult MultiHeadAttention::attend(const Tensor& x, KeyValueCache& cache, const Mask& mask) const {
  KeyValueCache longer;
  const Operands in = operands(x, cache, longer);
  AttentionResult result = attention_reference(in.q, in.k, in.v, {.mask = mask});
  result.output = project(join_heads(result.output));
  cache = std::move(longer);
  return result;
}

}  // namespace capstan::nn
