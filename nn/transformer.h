// Block and Gpt: the pre-norm decoder of GPT-2 (Radford et al. 2019).
#pragma once

#include <capstan/nn/attention.h>
#include <capstan/nn/embedding.h>
#include <capstan/nn/layer_norm.h>
#include <capstan/nn/mlp.h>
#include <capstan/ops/cross_entropy.h>

#include <vector>

namespace capstan::nn {

/// x ← x + attention(norm(x));  x ← x + mlp(norm(x)).   x [B, T, C] → [B, T, C]
struct Block {
  struct Config {
    Index width = 0;
    Index heads = 1;
    Index hidden = 0;  ///< of the mlp; 0: 4 · width
    bool bias = true;
    std::optional<double> deviation = {};
    std::optional<double> residual_deviation = {};
    AttentionKernel kernel = AttentionKernel::fused;
  };
  LayerNorm attention_norm;
  MultiHeadAttention attention;
  LayerNorm mlp_norm;
  Mlp mlp;

  Block(Init& init, const Config& config);
  Tensor operator()(const Tensor& x, const Mask& mask = Mask::causal()) const;
  /// x continues what the cache holds, and joins it.
  Tensor operator()(const Tensor& x, KeyValueCache& cache) const;
  /// The same with the last addition left to whoever reads the stream: the next block's norm.
  ResidualStream operator()(ResidualStream stream, const Mask& mask) const;
  ResidualStream operator()(ResidualStream stream, KeyValueCache& cache) const;
  static void fields(auto& self, auto& f) {
    f("attention_norm", self.attention_norm);
    f("attention", self.attention);
    f("mlp_norm", self.mlp_norm);
    f("mlp", self.mlp);
  }
};

/// A language model: token and learned position embeddings, blocks, a last norm, and a head that reads the token table
/// (tied: there is no second field).   ids i32 [B, T] → logits [B, T, V]
/// Weights start normal(0, 0.02), those that write into the residual stream normal(0, 0.02 / √(2 · blocks)).
/// Errors: ids of another rank or dtype, an id outside the vocabulary, T beyond `context`.
struct Gpt {
  struct Config {
    Index vocab = 256;
    Index context = 128;
    Index width = 128;
    Index heads = 4;
    Index blocks = 4;
    Index hidden = 0;  ///< of the mlp; 0: 4 · width
    bool bias = true;
    bool checkpoint = false;  ///< keep only each block's input, and run the block again in backward: memory for time
    AttentionKernel kernel = AttentionKernel::fused;
  };
  Config config;
  Embedding tokens;
  Embedding positions;
  std::vector<Block> blocks;
  LayerNorm norm;

  Gpt(Init& init, const Config& config);
  Tensor operator()(const Tensor& ids, const Mask& mask = Mask::causal()) const;
  /// The logits of ids [B, T] that follow those in the cache, which they join: the last T rows of the whole sequence's. An
  /// Error, and the cache as before, if the sequence grows beyond `context`.
  Tensor operator()(const Tensor& ids, ModelCache& cache) const;
  /// The mean cross-entropy (or another reduction) of the logits of ids [B, T] and targets i32 [B, T], without holding the
  /// logits, which are the largest tensor of a model with a large vocabulary. Errors: as linear_cross_entropy's.
  Tensor loss(const Tensor& ids, const Tensor& targets, const CrossEntropyOptions& options = {},
              const Mask& mask = Mask::causal()) const;
  /// The residual stream after the last norm, [B, T, C]: what the head reads.
  Tensor hidden(const Tensor& ids, const Mask& mask = Mask::causal()) const;
  static void fields(auto& self, auto& f) {
    f("tokens", self.tokens);
    f("positions", self.positions);
    f("blocks", self.blocks);
    f("norm", self.norm);
  }

 private:
  Gpt(Init& init, const Config& config, Index made_before);
  /// Tokens and their positions, start and up: [B, T] → [B, T, C].
  Tensor embedded(const Tensor& ids, Index start) const;
};

}  // namespace capstan::nn
