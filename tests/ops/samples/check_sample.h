// What every sample of the catalogue must show, each as a function that returns "" or one sentence of what is wrong.
// The catalogue tests assert them; gradient_report prints gradcheck's errors.
#pragma once

#include <capstan/autograd/gradcheck.h>

#include <string_view>

#include "support/sample.h"

namespace capstan::test {

/// The samples of one op, in the order of all_samples().
Samples samples_of(std::string_view op);

/// True if an output is recorded when all float inputs are watched; false for comparisons and the like.
bool differentiable(const Sample& sample);

/// Order 1 and 2 at the tolerance of 1e-9; only for differentiable samples.
GradcheckReport check_gradients(const Sample& sample);

/// The call puts an op of the sample's name on the tape, or returns nothing that could be recorded.
std::string runs_its_op(const Sample& sample);
/// Gradients by vjp_kernel (a backward that is not recorded) equal those by vjp to 1e-12, for every output alone and all
/// together; and they are the same with only one input watched.
std::string kernel_equals_rule(const Sample& sample);
/// Inputs and cotangents with the same elements elsewhere in memory (axes reversed, padded by NaN, every second element;
/// cotangents also with stride 0) give the same values and gradients to 1e-12.
std::string ignores_memory_layout(const Sample& sample);
/// The largest |f32 − f64| of values and gradients, each relative to max(1, the largest element of its tensor), in
/// units of f32's epsilon times max(1, the largest input): what a rounded input alone could do.
double f32_error(const Sample& sample);
/// That error is at most 8 units, NaN and infinities stand where they do in f64, and exact zeros are exact.
std::string close_in_f32(const Sample& sample);

/// An input, and so all that the op does, has no element.
bool is_empty(const Sample& sample);
/// Values and gradients have the same bytes on 1, 2 and 4 threads.
std::string same_on_any_threads(const Sample& sample);

}  // namespace capstan::test
