// One sample of a catalogue op: a call with inputs, which the catalogue tests check at every order. Each family of ops
// lists its samples in tests/ops/samples/<family>_samples.cpp; samples.cpp joins them.
#pragma once

#include <capstan/autograd/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace capstan::test {

struct Sample {
  std::string op;              // the catalogue's name; the call must record (or run) an op of this name
  std::string label;           // what is special about it: "broadcast [2,1]·[3]", "K = 0"
  std::vector<Tensor> inputs;  // f64; ids and masks are constants
  /// Returns every output, hidden statistics included. Runs in f32 too: captured constants are cast to the inputs' dtype.
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f;
  /// For each input: empty, or a boolean tensor of its shape; where true the gradient must be exactly 0, and differences
  /// are not taken (ids, masked positions, padding rows).
  std::vector<Tensor> exactly_zero = {};
  /// Step of the differences relative to max(1, |x|); smaller where inputs are large but what they do has the scale of 1.
  double step = 1e-3;
  /// The largest number that f makes of its inputs on the way: f32 rounds there. Only where it is above 1 and above them.
  double largest_inside = 1;
};

using Samples = std::vector<Sample>;

Samples elementwise_samples();  // elementwise.h
Samples compare_samples();      // compare.h, select.h
Samples reduce_samples();       // reduce.h, arg.h, scan.h
Samples rearrange_samples();    // rearrange.h
Samples gather_samples();       // gather.h, stack.h
Samples matmul_samples();       // matmul.h, linear.h
Samples softmax_samples();      // softmax.h
Samples embedding_samples();    // embedding.h
Samples losses_samples();       // cross_entropy.h
Samples activation_samples();   // activation.h, layer_norm.h
Samples add_layer_norm_samples();  // layer_norm.h
Samples rms_norm_samples();     // rms_norm.h
Samples dropout_samples();      // dropout.h
Samples rotary_samples();       // rotary.h
Samples attention_samples();    // attention.h
Samples engine_samples();       // autograd/accumulate.h, autograd/checkpoint.h

/// All of them.
Samples all_samples();

}  // namespace capstan::test
