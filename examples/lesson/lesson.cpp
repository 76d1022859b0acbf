// Runs the sections and puts their numbers into the page; see lesson.h.
#include "lesson.h"

#include <capstan/autograd/format.h>

#include <cmath>

#include "lesson/embedded.h"

namespace capstan::lesson {

Section::Section(std::string name, Json& page, std::vector<Check>& checks)
    : name_(std::move(name)), data_(page[name_]), checks_(checks) {}

Json to_json(const Shown& shown) {
  Json value = drawing::to_json(shown.value);
  value["call"] = shown.call;
  return value;
}

Tensor Section::show(const std::string& key, const Shown& shown) {
  put(key, to_json(shown));
  return shown.value;
}

Json refused(const char* call, FunctionRef<void()> run) {
  std::string message;
  try {
    run();
  } catch (const Error& error) { message = error.what(); }
  return {{"call", call}, {"error", message}};
}

void Section::put(const std::string& key, Json value) { data_[Json::json_pointer("/" + key)] = std::move(value); }

void Section::equal(const std::string& claim, const Tensor& value, const std::vector<double>& expected,
                    double tolerance) {
  const std::vector<double> got = value.to_doubles();
  bool passed = got.size() == expected.size();
  Json values = Json::array(), wanted = Json::array();
  for (const double x : got) values.push_back(drawing::rounded(x));
  for (const double x : expected) wanted.push_back(drawing::rounded(x));
  for (std::size_t i = 0; passed && i < got.size(); ++i)
    passed = got[i] == expected[i] || std::abs(got[i] - expected[i]) <= tolerance;
  add(claim, std::move(values), std::move(wanted), passed, tolerance);
}

void Section::equal(const std::string& claim, const Tensor& value, const Tensor& expected, double tolerance) {
  equal(claim, value, expected.to_doubles(), tolerance);
}

void Section::equal(const std::string& claim, double value, double expected, double tolerance) {
  const bool passed = value == expected || std::abs(value - expected) <= tolerance;
  add(claim, drawing::rounded(value), drawing::rounded(expected), passed, tolerance);
}

void Section::equal(const std::string& claim, const std::string& value, const std::string& expected) {
  add(claim, value, expected, value == expected, std::nullopt);
}

void Section::at_most(const std::string& claim, double value, double bound) {
  add(claim, drawing::rounded(value), fmt::format("at most {}", bound), value <= bound, 0);
}

void Section::at_least(const std::string& claim, double value, double bound) {
  add(claim, drawing::rounded(value), fmt::format("at least {}", bound), value >= bound, 0);
}

void Section::add(const std::string& claim, Json value, Json expected, bool passed, std::optional<double> tolerance) {
  checks_.push_back({fmt::format("{}: {}", name_, claim), std::move(value), std::move(expected), passed, tolerance});
}

double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  if (x.size() != y.size()) return NAN;
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double gap = std::abs(x[i] - y[i]);
    if (!(gap <= worst)) worst = gap;
  }
  return worst;
}

Lesson make_lesson() {
  Lesson lesson;
  Json data;
  three_tokens({"three", data, lesson.checks});
  why_scale({"scale", data, lesson.checks});
  stable_softmax({"softmax", data, lesson.checks});
  padding_mask({"padding", data, lesson.checks});
  causal_mask({"causal", data, lesson.checks});
  many_heads({"heads", data, lesson.checks});
  order({"order", data, lesson.checks});
  backward({"backward", data, lesson.checks});
  reach({"reach", data, lesson.checks});

  std::size_t passed = 0;
  for (const Check& check : lesson.checks) passed += check.passed ? 1 : 0;
  data["checks"] = {{"passed", passed}, {"count", lesson.checks.size()}};
  const std::string script = std::string(embedded::lesson_js)
                                 .append(embedded::masks_js)
                                 .append(embedded::heads_js)
                                 .append(embedded::gradients_js);
  lesson.page = drawing::render({.title = "Attention, number by number",
                                 .body = embedded::lesson_html,
                                 .style = embedded::lesson_css,
                                 .script = script,
                                 .data = std::move(data)});
  return lesson;
}

std::string to_json(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back(
        {{"name", check.name}, {"value", check.value}, {"expected", check.expected}, {"passed", check.passed}});
    if (check.tolerance) list.back()["tolerance"] = *check.tolerance;
  }
  return Json{{"checks", std::move(list)}}.dump(1) + '\n';
}

}  // namespace capstan::lesson
