#include <capstan/nn/rms_norm.h>
#include <capstan/ops/rms_norm.h>

namespace capstan::nn {

Tensor RmsNorm::operator()(const Tensor& x) const {
  detail::require_input("RmsNorm", weight, x, weight.shape()[0]);
  return rms_norm(x, weight, eps);
}

}  // namespace capstan::nn
