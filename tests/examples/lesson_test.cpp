// Tests of examples/lesson: its claims hold, and its page keeps within its limits. Not for: how the page looks and behaves in a
// browser (tests/browser/).
#include "lesson/lesson.h"

#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/expect.h"

namespace capstan::lesson {
namespace {

const Lesson& made() {
  static const Lesson lesson = make_lesson();
  return lesson;
}

TEST(Lesson, EveryClaimHolds) {
  std::set<std::string> names, stations;
  for (const Check& check : made().checks) {
    EXPECT_TRUE(check.passed) << check.name << ": got " << check.value.dump() << ", expected " << check.expected.dump();
    EXPECT_TRUE(names.insert(check.name).second) << check.name << " stands twice";
    stations.insert(check.name.substr(0, check.name.find(':')));
  }
  EXPECT_EQ(stations, (std::set<std::string>{"three", "scale", "softmax", "padding", "causal", "heads", "order",
                                             "backward", "reach"}));
}

TEST(Lesson, ThePageIsSmallWholeAndTheSameEachTime) {
  const std::string& page = made().page;
  EXPECT_LE(page.size(), 300'000u);
  for (const char* foreign : {"<link rel=\"stylesheet", " src=", "url(", "@import", "fetch(", "{{style}}"})
    EXPECT_EQ(page.find(foreign), std::string::npos) << foreign;
  EXPECT_TRUE(page == make_lesson().page);
}

TEST(Lesson, ChecksAreWrittenWithTheirFields) {
  EXPECT_EQ(to_json({{"a: b", 1, 1, true, 0.5}, {"c: d", "x", "y", false}}),
            "{\n \"checks\": [\n  {\n   \"name\": \"a: b\",\n   \"value\": 1,\n   \"expected\": 1,\n   \"passed\": "
            "true,\n   \"tolerance\": 0.5\n  },\n  {\n   \"name\": \"c: d\",\n   \"value\": \"x\",\n   \"expected\": "
            "\"y\",\n   "
            "\"passed\": false\n  }\n ]\n}\n");
}

TEST(Lesson, AWrongClaimDoesNotPass) {
  Json data;
  std::vector<Check> checks;
  Section section("s", data, checks);
  section.equal("number", 1.0, 1.1, 0.05);
  section.equal("count of numbers", section.show("x", {"call", zeros({2})}), {0.0});
  section.equal("not a number", NAN, 0, 1);
  section.equal("text", "a", "b");
  section.at_most("bound", 2, 1);
  section.at_most("bound of not a number", NAN, 1);
  section.at_least("least", 0, 1);
  for (const Check& check : checks) EXPECT_FALSE(check.passed) << check.name;
  EXPECT_EQ(checks.size(), 7u);
  EXPECT_EQ(data["s"]["x"]["call"], "call");
}

TEST(Lesson, WhatIsPrintedIsWhatWasCompiled) {
  GIVEN(text, const Tensor x = zeros({2}));  // not a part of it
  EXPECT_STREQ(text, "const Tensor x = zeros({2})");
  const Shown shown = SHOWN(x.size(0) > 0 ? x : ones({1, 2}));
  EXPECT_STREQ(shown.call, "x.size(0) > 0 ? x : ones({1, 2})");
  EXPECT_EQ(shown.value.shape(), x.shape());
  EXPECT_EQ(REFUSED(fail("no, {}", 1)), (Json{{"call", "fail(\"no, {}\", 1)"}, {"error", "no, 1"}}));
  EXPECT_EQ(REFUSED(zeros({1}))["error"], "");
}

TEST(Page, SaysSoWhereScriptsDoNotRun) { EXPECT_NE(made().page.find("<noscript>"), std::string::npos); }

TEST(Page, TextOfTheDataCannotEndItsElement) {
  const std::string page = drawing::render(
      {.title = "t", .body = "{{data}}", .style = "", .script = "", .data = {{"text", "</script><script>alert(1)"}}});
  EXPECT_EQ(page.find("</script><script>alert"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>"), std::string::npos);
  EXPECT_NE(page.find("{{data}}"), std::string::npos);  // a filling is not filled again
}

TEST(Page, NumbersHaveSixDigitsAndWordsWhereThereIsNone) {
  EXPECT_EQ(drawing::rounded(1.0 / 3).dump(), "0.333333");
  EXPECT_EQ(drawing::rounded(2).dump(), "2");
  EXPECT_EQ(drawing::rounded(NAN), "NaN");
  EXPECT_EQ(drawing::rounded(-INFINITY), "−∞");
}

}  // namespace
}  // namespace capstan::lesson
