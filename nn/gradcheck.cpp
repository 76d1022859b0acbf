#include <capstan/autograd/format.h>
#include <capstan/nn/gradcheck.h>

namespace capstan::nn::detail {

void require_f64(const Tensor& parameter, const std::string& name) {
  if (parameter.defined() && parameter.dtype() == DType::f32)
    fail(
        "gradcheck_module: parameters must be f64, because differences of f32 values drown in rounding; got f32 {} for "
        "{}; make the module with Init::dtype = DType::f64",
        parameter.shape(), name.empty() ? "the module itself" : name);
}

}  // namespace capstan::nn::detail
