// A case of tests/golden against a function: outputs and gradients, in f64 or f32. Not for: reading the files (golden.h).
#pragma once

#include <capstan/autograd/tape.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/golden.h"

namespace capstan::test {

/// What conditioning demands of one tensor: |got − want| ≤ absolute passes as well.
struct Looser {
  const char* case_name;
  const char* tensor;
  double f64, f32;  // absolute; 0: none
  const char* reason;
};

/// golden_difference, and an EXPECT on it.
inline void expect_golden(const GoldenCase& golden, const std::string& what, const Tensor& got, const Tensor& want,
                          DType dtype, const std::vector<Looser>& looser = {}) {
  const std::string text = golden_difference(golden.name + " " + what, got, want, bound_for(dtype));
  for (const Looser& entry : looser) {
    const double absolute = dtype == DType::f64 ? entry.f64 : entry.f32;
    if (text.empty() || golden.name != entry.case_name || what != entry.tensor || got.shape() != want.shape()) continue;
    const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], absolute) << text << "\n" << entry.reason;
    return;
  }
  EXPECT_EQ(text, "");
}

/// f(case, inputs) → outputs by name; each that the case has must be there. Returns how many gradients were compared.
template <class F>
std::size_t check_golden(const GoldenCase& golden, DType dtype, F&& f, const std::vector<Looser>& looser = {}) {
  Tape tape;
  Named inputs;
  for (const auto& [name, value] : golden.inputs) inputs[name] = in_dtype(value, dtype);
  for (const auto& [name, gradient] : golden.gradients) inputs[name] = tape.watch(inputs.at(name));
  const Named outputs = f(golden, inputs);
  for (const auto& [name, want] : golden.outputs) {
    if (!outputs.contains(name)) ADD_FAILURE() << golden.name << ": no output " << name;
    if (outputs.contains(name)) expect_golden(golden, name, outputs.at(name), want, dtype, looser);
  }
  std::vector<Root> roots;
  for (const auto& [name, cotangent] : golden.upstream) roots.push_back({outputs.at(name), in_dtype(cotangent, dtype)});
  if (roots.empty()) return 0;
  const Gradients gradients = tape.backward(roots);
  for (const auto& [name, want] : golden.gradients)
    expect_golden(golden, "gradient of " + name, gradients.of(inputs.at(name)), want, dtype, looser);
  return golden.gradients.size();
}

/// A fixture of both dtypes.
class GoldenBoth : public testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
};

}  // namespace capstan::test
