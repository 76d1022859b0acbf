// Attention modules: one head with free sizes, and many heads. Not for: the attention itself (ops/attention.h).
#pragma once

#include <capstan/nn/cache.h>
#include <capstan/nn/linear.h>
#include <capstan/ops/attention.h>

namespace capstan::nn {

/// What computes attention where its weights are not asked for: the fused op, in memory that grows with T, or the
/// reference, written from ops. Both are the same function up to rounding (ops/attention.h).
enum class AttentionKernel : std::uint8_t { fused, reference };

/// One head of attention (Vaswani et al. 2017, §3.2.1): Q = x W_Qᵀ, K = m W_Kᵀ, V = m W_Vᵀ, softmax(Q Kᵀ / √d_k) V.
/// x [B, T, d_model] → [B, T, d_v];  causal unless told otherwise. No output projection.
struct SingleHeadAttention {
  struct Config {
    Index d_model = 0;
    Index d_k = 0;
    Index d_v = 0;
    bool bias = true;
    std::optional<double> deviation = {};
    AttentionKernel kernel = AttentionKernel::fused;
  };
  AttentionKernel kernel;
  Linear query, key, value;

  SingleHeadAttention(Init& init, const Config& config);
  Tensor operator()(const Tensor& x, const Mask& mask = Mask::causal()) const;
  /// Queries from x [B, Tq, d_model], keys and values from memory [B, Tk, d_model]; with the weights [B, 1, Tq, Tk], so
  /// always by the reference.
  AttentionResult attend(const Tensor& x, const Tensor& memory, const Mask& mask) const;
  static void fields(auto& self, auto& f) {
    f("query", self.query);
    f("key", self.key);
    f("value", self.value);
  }
};

/// Which pairs of features rotary embedding turns (ops/rotary.h).
enum class Rotary : std::uint8_t { none, half_split, adjacent_pairs };

/// Multi-head attention (Vaswani et al. 2017, §3.2.2).   x [B, T, C] → [B, T, C];  causal unless told otherwise.
/// Head h owns features h·D to (h+1)·D − 1 of the projections, D = C / heads. With kv_heads < heads several query heads
/// share a key and value head (Ainslie et al. 2023). With `rotary`, queries and keys are turned by their positions, which
/// count from 0 on either side (Su et al. 2021).
/// Errors: width not divisible by heads, heads not by kv_heads; an odd D with rotary; x of another rank or width.
struct MultiHeadAttention {
  struct Config {
    Index width = 0;
    Index heads = 1;
    Index kv_heads = 0;      ///< 0: as many as heads
    Index memory_width = 0;  ///< width of what keys and values are made from; 0: width
    Index value_width = 0;   ///< width of what values are made from, if another; 0: memory_width
    bool bias = true;
    Rotary rotary = Rotary::none;
    double rotary_base = 10000;
    std::optional<double> deviation = {};
    std::optional<double> residual_deviation = {};  ///< of the output projection; `deviation` if not set
    AttentionKernel kernel = AttentionKernel::fused;
  };
  Index heads, kv_heads;
  Rotary rotary;
  double rotary_base;
  AttentionKernel kernel;
  Linear query, key, value, project;

  MultiHeadAttention(Init& init, const Config& config);
  Tensor operator()(const Tensor& x, const Mask& mask = Mask::causal()) const { return (*this)(x, x, mask); }
  /// Cross-attention: queries from x [B, Tq, C], keys and values from memory [B, Tk, memory_width]. Nothing is masked
  /// unless told.
  Tensor operator()(const Tensor& x, const Tensor& memory, const Mask& mask = {}) const;
  /// Self-attention of x [B, T, C], the positions that follow those in the cache, over all of them; x's keys and values join
  /// the cache. Equals the last T rows of a call with the whole sequence.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, const Mask& mask = Mask::causal(Align::bottom_right)) const;
  /// The same with the weights [B, H, Tq, Tk], so always by the reference.
  AttentionResult attend(const Tensor& x, const Tensor& memory, const Mask& mask) const {
    return attend(x, memory, memory, mask);
  }
  /// The same with keys made from one memory [B, Tk, memory_width] and values from another [B, Tk, value_width].
  AttentionResult attend(const Tensor& x, const Tensor& keys, const Tensor& values, const Mask& mask) const;
  /// The same after what the cache holds.
  AttentionResult attend(const Tensor& x, KeyValueCache& cache,
                         const Mask& mask = Mask::causal(Align::bottom_right)) const;
  static void fields(auto& self, auto& f) {
    f("query", self.query);
    f("key", self.key);
    f("value", self.value);
    f("project", self.project);
  }

 private:
  /// What attention is given.
  struct Operands {
    Tensor q, k, v;
  };
  Operands operands(const Tensor& x, const Tensor& keys, const Tensor& values) const;
  /// The same after what the cache holds, which becomes `longer`.
  Operands operands(const Tensor& x, const KeyValueCache& cache, KeyValueCache& longer) const;
  /// Heads of x, turned by their positions, start and up, if at all.
  Tensor placed(const Tensor& x, Index heads, Index start = 0) const;
};

}  // namespace capstan::nn
