// Generation: one token after another from a language model. Not for: the caches that it continues from (cache.h).
#pragma once

#include <capstan/autograd/random.h>
#include <capstan/nn/transformer.h>

#include <cstdint>
#include <vector>

namespace capstan::nn {

struct GenerateOptions {
  /// Tokens to add.
  Index count = 1;
  /// 0: always the likeliest token (the smaller id of equals); else logits are divided by it before the softmax.
  double temperature = 0;
  /// Token i is drawn with uniform number i of this key.
  Key key = {};
};

/// Appends `count` tokens to a prompt. When the sequence is longer than the model's context, the last `context` tokens are
/// read, with positions counted from 0. Errors: an empty prompt, an id outside the vocabulary, a negative count or
/// temperature.
std::vector<std::int32_t> generate(const Gpt& model, std::vector<std::int32_t> tokens, const GenerateOptions& options);

/// Draws an index from softmax(logits / temperature) by inverting the cumulative sum at u in [0, 1); the argmax at
/// temperature 0. logits [V].
std::int32_t sample(const Tensor& logits, double temperature, double u);

}  // namespace capstan::nn
