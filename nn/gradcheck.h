// The gradient check for modules: every parameter is perturbed, at first and second order, and a failure names it. Not for:
// what a module computes (compare with values), or single ops (autograd/gradcheck.h).
#pragma once

#include <capstan/autograd/gradcheck.h>
#include <capstan/nn/module.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace capstan::nn {

namespace detail {
/// Refuses a parameter that is not f64, by its name.
void require_f64(const Tensor& parameter, const std::string& name);
}  // namespace detail

/// gradcheck of call(module, inputs) with respect to the module's parameters, in the order of its fields, and to the inputs
/// after them; `call` returns a tensor or a vector of tensors. The sentence of a failure names the parameter by its path and the
/// index in it: "… the derivative by blocks.0.mlp.up.weight at [2, 1] …". `options.exactly_zero`, and `options.names` if given,
/// count in the same order.
/// The step is smaller than gradcheck's own: fresh parameters are far below 1, and norms curve sharply around them.
/// Errors: a parameter that is not f64, with its name (make the module with Init::dtype = DType::f64); and gradcheck's own.
template <class Module, class Call>
GradcheckReport gradcheck_module(const Module& module, const std::vector<Tensor>& inputs, Call&& call,
                                 GradcheckOptions options = {.step = 1e-4}) {
  std::vector<Tensor> all;
  std::vector<std::string> names;
  walk(module, [&](const Path& path, const auto& leaf) {
    const Tensor* parameter = differentiable(leaf);
    if (!parameter) return;
    names.push_back(path.str());
    detail::require_f64(*parameter, names.back());
    all.push_back(*parameter);
  });
  const auto parameters = static_cast<std::ptrdiff_t>(all.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) names.push_back("input " + std::to_string(i));
  all.insert(all.end(), inputs.begin(), inputs.end());
  if (options.names.empty()) options.names = std::move(names);
  const auto f = [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    Module perturbed = module;
    auto next = x.begin();
    for_each_tensor(perturbed, [&](Tensor& parameter) { parameter = *next++; });
    const std::vector<Tensor> rest(x.begin() + parameters, x.end());
    if constexpr (std::is_convertible_v<decltype(call(std::as_const(perturbed), rest)), Tensor>)
      return {call(std::as_const(perturbed), rest)};
    else
      return call(std::as_const(perturbed), rest);
  };
  return gradcheck(f, all, options);
}

/// The same for loss(module) with nothing but the parameters to vary.
template <class Module, class Loss>
requires std::is_invocable_v<Loss&, const Module&> GradcheckReport
gradcheck_module(const Module& module, Loss&& loss, GradcheckOptions options = {.step = 1e-4}) {
  return gradcheck_module(
      module, {}, [&](const Module& m, const std::vector<Tensor>&) { return loss(m); }, std::move(options));
}

}  // namespace capstan::nn
