#include "support/golden.h"

#include <capstan/autograd/create.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace capstan::test {

namespace {

double number(const nlohmann::json& json) {
  if (!json.is_string()) return json.get<double>();
  const auto text = json.get<std::string>();
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (text == "inf") return inf;
  if (text == "-inf") return -inf;
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  throw std::runtime_error("golden: not a number: " + text);
}

Named tensors(const nlohmann::json& json, const char* field) {
  Named result;
  if (!json.contains(field)) return result;
  for (const auto& [name, value] : json[field].items()) result[name] = golden_tensor(value);
  return result;
}

std::set<std::string> replace(Named& of, const Named& by) {
  std::set<std::string> names;
  for (const auto& [name, value] : by) {
    of[name] = value;
    names.insert(name);
  }
  return names;
}

}  // namespace

Tensor golden_tensor(const nlohmann::json& json) {
  Shape shape;
  for (const auto& size : json["shape"]) shape.push_back(size.get<Index>());
  const auto dtype = json["dtype"].get<std::string>();
  const auto& data = json["data"];
  std::vector<double> numbers;
  if (dtype == "bool") {
    Buffer buffer(shape, DType::boolean);
    std::ranges::transform(data, buffer.data<bool>().begin(), [](const auto& element) {
      return element.is_boolean() ? element.template get<bool>() : element.template get<int>() != 0;
    });
    return buffer;
  }
  if (dtype == "i64") {
    Buffer buffer(shape, DType::i32);
    std::ranges::transform(data, buffer.data<std::int32_t>().begin(), [](const auto& element) {
      const auto value = element.template get<std::int64_t>();
      if (value != static_cast<std::int32_t>(value)) throw std::runtime_error("golden: beyond 32 bits");
      return static_cast<std::int32_t>(value);
    });
    return buffer;
  }
  for (const auto& element : data) numbers.push_back(number(element));
  return tensor(numbers, shape);
}

std::vector<GoldenCase> golden_cases(const std::string& file) {
  std::ifstream stream(fmt::format("{}/{}.json", CAPSTAN_GOLDEN_DIR, file));
  if (!stream) throw std::runtime_error("golden: no file " + file);
  const nlohmann::json json = nlohmann::json::parse(stream);
  std::vector<GoldenCase> cases;
  for (const auto& item : json["cases"]) {
    GoldenCase golden;
    golden.name = item["name"];
    golden.options = item["options"];
    golden.inputs = tensors(item, "inputs");
    golden.outputs = tensors(item, "outputs");
    golden.upstream = tensors(item, "upstream");
    golden.gradients = tensors(item, "gradients");
    golden.vectors = tensors(item, "vectors");
    golden.hessian_vector_products = tensors(item, "hessian_vector_products");
    if (item.contains("wanted")) {
      golden.wanted_outputs = replace(golden.outputs, tensors(item["wanted"], "outputs"));
      golden.wanted_gradients = replace(golden.gradients, tensors(item["wanted"], "gradients"));
    }
    golden.raw = item;
    cases.push_back(std::move(golden));
  }
  return cases;
}

Tensor in_dtype(const Tensor& x, DType dtype) {
  if (x.dtype() != DType::f64 || dtype == DType::f64) return x;
  Buffer buffer(x.shape(), DType::f32);
  std::ranges::transform(x.to_doubles(), buffer.data<float>().begin(),
                         [](double element) { return static_cast<float>(element); });
  return buffer;
}

Bound bound_for(DType dtype) { return dtype == DType::f64 ? Bound{1e-10, 1e-12} : Bound{1e-5, 1e-6}; }

std::string golden_difference(const std::string& what, const Tensor& got, const Tensor& want, Bound bound) {
  if (got.shape() != want.shape())
    return fmt::format("{}: shape {}, not {}", what, to_string(got.shape()), to_string(want.shape()));
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  double largest = 0;
  for (const double element : b)
    if (std::isfinite(element)) largest = std::max(largest, std::abs(element));
  std::string worst;
  double worst_excess = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double allowed = bound.relative * std::abs(b[i]) + bound.absolute * largest;
    double excess = std::abs(a[i] - b[i]) / allowed;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]) || std::isnan(excess))
      excess = std::numeric_limits<double>::infinity();
    if (excess <= worst_excess) continue;
    worst_excess = excess;
    worst = fmt::format("{}: element {} is {:.17g}, not {:.17g}: {:.3g} times what is allowed", what, i, a[i], b[i],
                        excess);
  }
  return worst;
}

}  // namespace capstan::test
