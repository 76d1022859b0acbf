// What op tests say again and again: values with shape, and error sentences to the letter. Not for: gradient checks
// (sample.h, gradcheck.h).
#pragma once

#include <capstan/autograd/error.h>
#include <capstan/autograd/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace capstan::test {

/// The sentence that f throws; "no error" if it returns.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

/// Shape and elements, exactly (NaN equals NaN).
inline void expect_exactly(const Tensor& x, const Shape& shape, const std::vector<double>& elements) {
  EXPECT_EQ(to_string(x.shape()), to_string(shape));
  const std::vector<double> got = x.to_doubles();
  ASSERT_EQ(got.size(), elements.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] == got[i] || elements[i] == elements[i]) { EXPECT_EQ(got[i], elements[i]) << "element " << i; }
}

/// Shape, and elements up to `tolerance` · max(1, |expected|).
inline void expect_near(const Tensor& x, const Shape& shape, const std::vector<double>& elements, double tolerance) {
  EXPECT_EQ(to_string(x.shape()), to_string(shape));
  const std::vector<double> got = x.to_doubles();
  ASSERT_EQ(got.size(), elements.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], elements[i], tolerance * std::max(1.0, elements[i] < 0 ? -elements[i] : elements[i]))
        << "element " << i;
}

}  // namespace capstan::test
