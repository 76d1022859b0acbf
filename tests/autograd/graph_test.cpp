// Tests of graph.h: the picture of a tape, in Graphviz's language and drawn.
#include <capstan/autograd/create.h>
#include <capstan/autograd/graph.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/expect.h"
#include "support/makers.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::number;
using test::plain::mul;
using test::plain::square;

TEST(Graph, ShowsLeavesOpsConstantsAndTheirEdgesInOrder) {
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  const Tensor y = tape.watch(mul(x, ones({2})));
  const Tensor z = square(y);
  EXPECT_EQ(graph_to_dot(tape, {{"x", x}, {"y", y}}),
            "digraph tape {\n"
            "  graph [ordering=in];\n"
            "  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n"
            "  n0 [class=\"leaf watched\", label=\"x\\n[2]\", fillcolor=\"#d9eaf3\", penwidth=2];\n"
            "  c0 [class=\"constant\", label=\"constant\\n[2]\", style=\"rounded,filled,dashed\", "
            "fontcolor=\"#5d6570\"];\n"
            "  n1 [class=\"op watched\", label=\"y = plain_mul\\n[2]\", penwidth=2];\n"
            "  n0 -> n1;\n"
            "  c0 -> n1;\n"
            "  n2 [class=\"op\", label=\"plain_mul\\n[2]\"];\n"
            "  n1 -> n2;\n"
            "  n1 -> n2;\n"
            "}\n");
}

TEST(Graph, QuotesInNamesAreEscaped) {
  Tape tape;
  const Tensor x = tape.watch(number(1));
  EXPECT_NE(graph_to_dot(tape, {{"a\"b\\", x}}).find("label=\"a\\\"b\\\\\\n[]\""), std::string::npos);
}

TEST(Graph, NamesOfAnyBytesAreShown) {
  Tape tape;
  const Tensor x = tape.watch(number(1));
  const auto shown = [&](const std::string& name) {
    const std::string dot = graph_to_dot(tape, {{name, x}});
    const std::size_t begin = dot.find("label=\"") + 7;
    return dot.substr(begin, dot.find("\\n[]", begin) - begin);
  };
  EXPECT_EQ(shown("Ж 秋 𝛁"), "Ж 秋 𝛁");
  EXPECT_EQ(shown(std::string("a\0b\x1b[1m\n\t\x7f", 10)), "a␀b␛[1m␊␉␡");
  EXPECT_EQ(shown("&#1; & &lt;"), "&amp;#1; &amp; &amp;lt;");
  EXPECT_EQ(shown("a\xff\xc3"), "a\ufffd\ufffd") << "no UTF-8";
  EXPECT_EQ(shown("\xc0\x80"), "\ufffd\ufffd") << "too long for its code";
  EXPECT_EQ(shown("\xed\xa0\x80"), "\ufffd\ufffd\ufffd") << "half of a pair";
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd") << "beyond U+10FFFF";
  EXPECT_EQ(shown("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd"), "\ufffd\ufffd\ufffd") << "no characters, and U+FFFD itself";
}

TEST(Graph, OfAConsumedTapeIsAnErrorAndOfAKeptOneIsNot) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor y = square(x);
  tape.backward(y, {.keep = true});
  EXPECT_NE(graph_to_dot(tape).find("n0 -> n1"), std::string::npos);
  tape.backward(y);
  EXPECT_EQ(error_of([&] { graph_to_dot(tape); }),
            "graph_to_dot: the tape must still hold its calls; got a tape that a backward consumed; draw it before, or "
            "pass {.keep = true} to that backward");
}

TEST(Graph, ANameForAConstantIsAnError) {
  Tape tape;
  EXPECT_EQ(error_of([&] {
              graph_to_dot(tape, {{"w", number(1)}});
            }),
            "graph_to_dot: w must be recorded on this tape; got a tensor that is not; name what watch() or an op on it "
            "returned");
}

bool dot_is_installed() { return std::system("dot -V >/dev/null 2>&1") == 0; }

TEST(Graph, IsDrawnWhereGraphvizIsInstalledAndNothingElsewhere) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  square(x);
  const bool installed = dot_is_installed();
  const std::optional<std::string> svg = graph_to_svg(tape, {{"the leaf", x}});
  ASSERT_EQ(svg.has_value(), installed);
  if (!installed) return;
  EXPECT_TRUE(svg->starts_with("<svg"));
  EXPECT_NE(svg->find(">the leaf<"), std::string::npos) << *svg;
  EXPECT_NE(svg->find("class=\"node leaf watched\""), std::string::npos) << *svg;
}

/// Whether XML 1.0 allows each byte of UTF-8 text: no control but tab, line feed and carriage return, by itself or as an entity.
bool allowed_in_xml(const std::string& text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') return false;
  return text.find("&#1;") == std::string::npos && text.find("\xef\xbf\xbf") == std::string::npos;
}

TEST(Graph, IsDrawnAsWellFormedXmlWhateverTheNames) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  std::string name;
  for (int c = 0; c < 256; ++c) name += static_cast<char>(c);
  const std::optional<std::string> svg = graph_to_svg(tape, {{name + "&#1;\xef\xbf\xbf", x}});
  if (!svg) {
    EXPECT_FALSE(dot_is_installed());
    return;
  }
  EXPECT_TRUE(allowed_in_xml(*svg)) << *svg;
  EXPECT_NE(svg->find("␀␁␂"), std::string::npos) << *svg;
  EXPECT_NE(svg->find("&amp;#1;"), std::string::npos) << *svg;
}

}  // namespace
}  // namespace capstan
