// The catalogue: every op of the library by name. An op that is not listed here does not compile (ops/apply.h); a listed
// op without a sample in tests/ops/samples fails a test. Not for: users' own ops (they call `record`).
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace capstan::ops {

inline constexpr std::string_view catalog[] = {
    // autograd/accumulate.h
    "accumulate",
    // autograd/checkpoint.h
    "checkpoint",
    // ops/elementwise.h
    "add", "sub", "mul", "div", "minimum", "maximum", "neg", "scale", "abs", "exp", "log", "tanh", "sqrt", "rsqrt", "pow",
    "sigmoid", "sin", "cos", "erf", "erfc", "clamp",
    // ops/compare.h
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_not",
    // ops/select.h
    "where", "cast",
    // ops/reduce.h
    "sum", "mean", "max", "min",
    // ops/arg.h, ops/scan.h
    "argmax", "argmin", "cumsum",
    // ops/rearrange.h
    "reshape", "transpose", "permute", "broadcast_to", "slice", "pad", "concat", "one_hot",
    // ops/stack.h
    "flip",
    // ops/gather.h
    "gather", "scatter_add",
    // ops/matmul.h, ops/linear.h, ops/gelu_linear.h
    "matmul", "matmul_nt", "linear", "gelu_linear",
    // ops/softmax.h
    "softmax", "masked_softmax", "log_softmax", "logsumexp",
    // ops/embedding.h
    "embedding", "embedding_transpose",
    // ops/cross_entropy.h, ops/linear_cross_entropy.h
    "cross_entropy", "linear_cross_entropy",
    // ops/activation.h
    "relu", "gelu_tanh", "gelu_erf", "silu", "softplus",
    // ops/layer_norm.h, ops/rms_norm.h
    "layer_norm", "add_layer_norm", "rms_norm",
    // ops/dropout.h
    "dropout",
    // ops/rotary.h
    "rotary",
    // ops/attention.h
    "attention",
};

constexpr bool listed(std::string_view name) { return std::find(std::begin(catalog), std::end(catalog), name) != std::end(catalog); }

}  // namespace capstan::ops
