// EXPECT_GRADIENTS: the gradient check as a GoogleTest expectation. Header only; whoever includes it links gtest, the library
// does not.
#pragma once

#include <capstan/autograd/gradcheck.h>
#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <type_traits>
#include <vector>

namespace capstan::detail {

/// "", or why the gradients of f at the inputs are not right or cannot be checked.
template <class F>
std::string gradient_failure(F&& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  try {
    return gradcheck(
               [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
                 if constexpr (std::is_convertible_v<decltype(f(x)), Tensor>)
                   return {f(x)};
                 else
                   return f(x);
               },
               inputs, options)
        .failure;
  } catch (const std::exception& error) { return error.what(); }
}

}  // namespace capstan::detail

/// EXPECT_GRADIENTS(f, inputs) and EXPECT_GRADIENTS(f, inputs, options): a non-fatal failure with gradcheck's sentence unless
/// the gradients of f, (const std::vector<Tensor>&) → a Tensor or a vector of them, are right at orders 1 and 2. Inputs are
/// f64; see gradcheck.h. What cannot be checked (f32, no f64 input) is a failure too; inputs without any element pass, though
/// nothing was compared (gradcheck's `entries` is 0 then). More may be streamed into it: << ": case 3".
#define EXPECT_GRADIENTS(...)                                                                                          \
  switch (0)                                                                                                           \
  case 0:                                                                                                              \
  default:                                                                                                             \
    if (const std::string capstan_failure = ::capstan::detail::gradient_failure(__VA_ARGS__); capstan_failure.empty()) \
      ;                                                                                                                \
    else                                                                                                               \
      ADD_FAILURE() << capstan_failure
