// Where a vjp_kernel writes the gradient of an input: onto what other uses of the input have gathered so far, if that
// memory can be had, so that no second tensor is made and added. Internal to the ops layer.
#pragma once

#include <capstan/autograd/op.h>

namespace capstan::ops {

struct GradientSum {
  bool adds;  ///< the buffer holds a sum to add to; else it is not initialised
  Buffer buffer;

  GradientSum(const Call& call, int input) : GradientSum(call.take_sum(input), call, input) {}

 private:
  GradientSum(Tensor sum, const Call& call, int input)
      : adds(sum.defined()),
        buffer(adds ? std::move(sum).to_buffer() : call.new_gradient(input)) {}
};

}  // namespace capstan::ops
