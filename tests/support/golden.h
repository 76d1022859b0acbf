// Reads the reference results in tests/golden (their format is in tests/golden/README.md) and compares with them.
#pragma once

#include <capstan/autograd/tensor.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace capstan::test {

using Named = std::map<std::string, Tensor>;

/// One case. Floats are f64, whole numbers i32, truth values boolean. Where the file says what is wanted instead of the
/// reference's own result, that stands in `outputs` and `gradients`, and its name in the sets.
struct GoldenCase {
  std::string name;
  nlohmann::json options;
  Named inputs, outputs, upstream, gradients, vectors, hessian_vector_products;
  std::set<std::string> wanted_outputs, wanted_gradients;
  nlohmann::json raw;  ///< the whole case, for fields that only one file has
  std::string op() const { return options.value("op", ""); }
};

/// All cases of tests/golden/<file>.json, in their order.
std::vector<GoldenCase> golden_cases(const std::string& file);

/// A tensor of the golden format.
Tensor golden_tensor(const nlohmann::json& json);
/// f64 → dtype; other tensors as they are.
Tensor in_dtype(const Tensor& x, DType dtype);

/// |got − want| ≤ relative · |want| + absolute · M, M being the largest finite |want|.
struct Bound {
  double relative;
  double absolute;
};
/// What the golden data's README asks for: 1e-10 and 1e-12 in f64, 1e-5 and 1e-6 in f32.
Bound bound_for(DType dtype);

/// "" or what differs: shape, or the worst element. NaN equals NaN; infinities are compared exactly.
std::string golden_difference(const std::string& what, const Tensor& got, const Tensor& want, Bound bound);

}  // namespace capstan::test
