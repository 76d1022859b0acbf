// A lesson on attention: sections that compute every number of its page, and the claims that these numbers must bear out.
// Not for: what the page says (lesson.html) and how it shows (lesson.js); those compute nothing.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drawing/page.h"

namespace capstan::lesson {

using drawing::Json;

/// A value and the source text that made it.
struct Shown {
  const char* call;
  Tensor value;
};
/// Shown of an expression: what the page prints as the call is what was compiled.
#define SHOWN(...) \
  ::capstan::lesson::Shown { #__VA_ARGS__, (__VA_ARGS__) }
/// A declaration and, under the name `text`, its source: the page prints it beside the calls that use what it declares.
#define GIVEN(text, ...) \
  __VA_ARGS__;           \
  const char* const text = #__VA_ARGS__
/// {"call", "error"} of an expression that must throw; the error is empty if it does not.
#define REFUSED(...) ::capstan::lesson::refused(#__VA_ARGS__, [&] { static_cast<void>(__VA_ARGS__); })
Json refused(const char* call, FunctionRef<void()> run);

/// {"shape", "values", "call"}
Json to_json(const Shown& shown);

/// One claim of the page, held against a run.
struct Check {
  std::string name;
  Json value;
  Json expected;
  bool passed = false;
  std::optional<double> tolerance = std::nullopt;  // of numbers; 0 for bounds
};

/// Numbers of one section go into the page's data under its name, its claims into the checks.
class Section {
 public:
  Section(std::string name, Json& page, std::vector<Check>& checks);

  /// Puts value and call under a key ("causal/weights" is a place inside "causal"); returns the value.
  Tensor show(const std::string& key, const Shown& shown);
  void put(const std::string& key, Json value);

  /// Each number must be as expected, up to `tolerance`; 0: exactly. Sizes must agree.
  void equal(const std::string& claim, const Tensor& value, const std::vector<double>& expected, double tolerance = 0);
  void equal(const std::string& claim, const Tensor& value, const Tensor& expected, double tolerance = 0);
  void equal(const std::string& claim, double value, double expected, double tolerance = 0);
  void equal(const std::string& claim, const std::string& value, const std::string& expected);
  void at_most(const std::string& claim, double value, double bound);
  void at_least(const std::string& claim, double value, double bound);

 private:
  void add(const std::string& claim, Json value, Json expected, bool passed, std::optional<double> tolerance);

  std::string name_;
  Json& data_;
  std::vector<Check>& checks_;
};

/// Largest |a − b|; NaN if any element is.
double distance(const Tensor& a, const Tensor& b);

// In the order of the page.
void three_tokens(Section section);
void why_scale(Section section);
void stable_softmax(Section section);
void padding_mask(Section section);
void causal_mask(Section section);
void many_heads(Section section);
void order(Section section);
void backward(Section section);
void reach(Section section);

struct Lesson {
  std::string page;  // HTML
  std::vector<Check> checks;
};
Lesson make_lesson();

/// {"checks": [{"name", "value", "expected", "passed", "tolerance" if they are numbers}, …]}
std::string to_json(const std::vector<Check>& checks);

}  // namespace capstan::lesson
