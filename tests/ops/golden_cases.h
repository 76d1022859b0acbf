// Running the cases of tests/golden through the catalogue, in f64 and f32. Cases that are not run stand in a closed list with
// their number and reason; so do bounds that conditioning demands.
#pragma once

#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/cross_entropy.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/golden.h"

namespace capstan::test {

/// Cases of a file that no op of the catalogue can answer yet.
struct LeftOut {
  const char* file;
  const char* what;  // an op, an input that the op does not take, or the name of a case
  int cases;
  const char* reason;
};
inline constexpr LeftOut left_out[] = {
    {"elementwise_reduce", "mean_zero_size", 1,
     "the mean of nothing is NaN there, and an error here (run in golden_reduce_test.cpp)"},
    {"layer_norm", "rms_norm", 18, "run in golden_rms_norm_test.cpp"},
    {"highorder", "rms_norm", 1, "run in golden_rms_norm_test.cpp"},
};

/// The same, for f32 alone: cases whose numbers do not exist there.
inline constexpr LeftOut left_out_in_f32[] = {
    {"elementwise_reduce", "exp_extremes", 1, "exp(700) is beyond f32"},
    {"elementwise_reduce", "log_extremes", 1, "1e-300 is beyond f32"},
    {"elementwise_reduce", "relu_extremes", 1, "1e300 is beyond f32"},
};

/// Bounds that conditioning demands: |got − want| ≤ absolute as well passes.
struct Looser {
  const char* case_name;
  const char* tensor;
  double f64, f32;  // absolute; 0: none
  const char* reason;
};
inline constexpr Looser looser[] = {
    {"layer_norm_constant_rows", "gradient of weight", 1e-12, 1e-12, "exactly 0 here; the reference's rounding"},
    {"layer_norm_length_1", "gradient of weight", 1e-12, 1e-12, "exactly 0 here; the reference's rounding"},
    {"layer_norm_length_1", "gradient of x", 1e-12, 1e-12, "exactly 0 here; the reference's rounding"},
    {"bias_rows", "gradient of bias", 1e-14, 1e-6, "a bias of whole rows changes nothing: both are rounding around 0"},
    {"large_scores", "gradient of q", 0, 1e-37, "1e-82 is beyond f32"},
    {"large_scores", "gradient of k", 0, 1e-37, "1e-82 is beyond f32"},
    {"layer_norm_length_2", "gradient of x", 0, 1e-7,
     "two elements normalise to ±1 whatever they are: the gradient cancels"},
    {"layer_norm_offset", "out", 0, 1e-3,
     "f32 keeps 2000 ± 1 to 6e-5, an input error that the row's spread does not hide"},
    {"layer_norm_offset", "mean", 0, 1e-3, "the same"},
    {"layer_norm_offset", "rstd", 0, 1e-3, "the same"},
    {"layer_norm_offset", "gradient of x", 0, 1e-3, "the same"},
    {"layer_norm_offset", "gradient of weight", 0, 1e-3, "the same"},
    {"softmax_huge_shift", "out", 0, 1e-2, "f32 keeps 100000 ± 1 to 4e-3, an error of the input"},
    {"softmax_huge_shift", "gradient of x", 0, 1e-2, "the same"},
    {"log_softmax_huge_shift", "out", 0, 1e-2, "the same"},
    {"log_softmax_huge_shift", "gradient of x", 0, 1e-2, "the same"},
};

/// The same, for the fused attention alone: its dS = P (dP − Σ dO O) cancels by rounding where one weight is all.
inline constexpr Looser looser_if_fused[] = {
    {"t_1", "gradient of q", 1e-16, 1e-6, "exactly 0 by the softmax's rule"},
    {"t_1", "gradient of k", 1e-16, 1e-6, "the same"},
    {"t_1_causal", "gradient of q", 1e-16, 1e-6, "the same"},
    {"t_1_causal", "gradient of k", 1e-16, 1e-6, "the same"},
    {"large_scores", "gradient of q", 1e-13, 1e-4, "1e-82 by the softmax's rule; scores of 1e3"},
    {"large_scores", "gradient of k", 1e-13, 1e-4, "the same"},
    {"large_scores", "gradient of v", 0, 2e-4, "weights come again from a logsumexp of 3e3, which f32 keeps to 2e-4"},
};

inline bool within_looser(const GoldenCase& golden, const std::string& tensor, DType dtype, const Tensor& got,
                   const Tensor& want, std::span<const Looser> entries = looser) {
  for (const Looser& entry : entries) {
    const double absolute = dtype == DType::f64 ? entry.f64 : entry.f32;
    if (golden.name != entry.case_name || tensor != entry.tensor || absolute == 0 || got.shape() != want.shape())
      continue;
    const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= absolute)) return false;
    return true;
  }
  return false;
}

/// Outputs that the ops do not return.
inline const std::set<std::string> not_returned = {
    "lse",  // an output of the fused attention alone
};

inline std::vector<LeftOut> left_out_of(const std::string& file, DType dtype) {
  std::vector<LeftOut> result;
  for (const LeftOut& entry : left_out)
    if (file == entry.file) result.push_back(entry);
  if (dtype == DType::f32)
    for (const LeftOut& entry : left_out_in_f32)
      if (file == entry.file) result.push_back(entry);
  return result;
}

inline bool skipped(const GoldenCase& golden, const std::vector<LeftOut>& entries, std::map<std::string, int>& count) {
  for (const LeftOut& entry : entries)
    if (golden.op() == entry.what || golden.name == entry.what || golden.inputs.contains(entry.what)) {
      ++count[entry.what];
      return true;
    }
  return false;
}

/// Runs fn on each case of a file that is not left out; asserts the number of both kinds.
template <class F>
void for_each_case(const std::string& file, DType dtype, int expected, F&& fn) {
  const std::vector<LeftOut> entries = left_out_of(file, dtype);
  std::map<std::string, int> count;
  int ran = 0;
  for (const GoldenCase& golden : golden_cases(file)) {
    if (skipped(golden, entries, count)) continue;
    SCOPED_TRACE(file + "/" + golden.name);
    try {
      fn(golden);
    } catch (const std::exception& error) { ADD_FAILURE() << error.what(); }
    ++ran;
  }
  EXPECT_EQ(ran, expected);
  for (const LeftOut& entry : left_out)
    if (file == entry.file) { EXPECT_EQ(count[entry.what], entry.cases) << entry.what << ": " << entry.reason; }
}

inline Named in_dtype(const Named& tensors, DType dtype) {
  Named result;
  for (const auto& [name, value] : tensors) result[name] = test::in_dtype(value, dtype);
  return result;
}

inline void expect_close(const std::string& what, const Tensor& got, const Tensor& want, Bound bound) {
  const std::string text = golden_difference(what, got, want, bound);
  EXPECT_TRUE(text.empty()) << text;
}

/// f's outputs and gradients against the case's.
template <class F>
void check(const GoldenCase& golden, DType dtype, Bound bound, F&& f, std::span<const Looser> also_looser = {}) {
  Tape tape;
  Named inputs = in_dtype(golden.inputs, dtype);
  for (const auto& [name, gradient] : golden.gradients) inputs[name] = tape.watch(inputs.at(name));
  const Named outputs = f(golden, inputs);
  // What is wanted is given to the last digit: in f64 it is compared relatively, so that a tail of 1e-11 cannot pass as 0.
  const Bound strict = dtype == DType::f64 ? Bound{1e-10, 0} : bound;
  for (const auto& [name, want] : golden.outputs) {
    if (not_returned.contains(name) && !outputs.contains(name)) continue;
    if (!outputs.contains(name)) {
      ADD_FAILURE() << "no output " << name;
      continue;
    }
    if (within_looser(golden, name, dtype, outputs.at(name), want)) continue;
    expect_close(name, outputs.at(name), want, golden.wanted_outputs.contains(name) ? strict : bound);
  }
  std::vector<Root> roots;
  for (const auto& [name, cotangent] : golden.upstream)
    if (outputs.at(name).recorded()) roots.push_back({outputs.at(name), test::in_dtype(cotangent, dtype)});
  if (roots.empty()) return;
  const Gradients gradients = tape.backward(roots);
  for (const auto& [name, want] : golden.gradients) {
    const std::string what = "gradient of " + name;
    const Tensor got = gradients.of(inputs.at(name));
    if (within_looser(golden, what, dtype, got, want) || within_looser(golden, what, dtype, got, want, also_looser))
      continue;
    expect_close(what, got, want, golden.wanted_gradients.contains(name) ? strict : bound);
  }
}

class Golden : public testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  bool narrow() const { return dtype() == DType::f32; }
  Bound bound() const { return bound_for(dtype()); }
};

inline Tensor optional_input(const Named& in, const char* name) { return in.contains(name) ? in.at(name) : Tensor(); }

inline Reduction reduction_of(const std::string& name) {
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}

}  // namespace capstan::test
