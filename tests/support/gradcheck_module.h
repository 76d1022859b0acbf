// The gradient check for modules: every parameter and every input is perturbed, at first and second order. Not for: what
// a module computes (compare with values), or single ops (gradcheck.h, sample.h).
#pragma once

#include <capstan/autograd/fields.h>
#include <capstan/autograd/gradcheck.h>

#include <utility>
#include <vector>

namespace capstan::test {

/// gradcheck of call(module, inputs) → outputs with respect to the module's parameters, in the order of its fields, and
/// then the inputs. The parameters must be f64 (Init::dtype). `options.exactly_zero` is counted in the same order.
template <class Module, class Call>
GradcheckReport gradcheck_module(const Module& module, const std::vector<Tensor>& inputs, Call&& call,
                                 const GradcheckOptions& options = {}) {
  std::vector<Tensor> all;
  for_each_tensor(module, [&](const Tensor& parameter) { all.push_back(parameter); });
  const auto parameters = static_cast<std::ptrdiff_t>(all.size());
  all.insert(all.end(), inputs.begin(), inputs.end());
  const auto f = [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    Module perturbed = module;
    auto next = x.begin();
    for_each_tensor(perturbed, [&](Tensor& parameter) { parameter = *next++; });
    return call(std::as_const(perturbed), std::vector<Tensor>(x.begin() + parameters, x.end()));
  };
  return gradcheck(f, all, options);
}

}  // namespace capstan::test
