// Writes the nodes of a tape in Graphviz's language, and pipes them through Graphviz; see graph.h.
#include <capstan/autograd/format.h>
#include <capstan/autograd/graph.h>
#include <capstan/autograd/node.h>

#include <cstdio>
#include <memory>
#include <unordered_map>
#include <utility>

namespace capstan {

/// The door that Tape opens to its picture.
struct detail::TapeDoor {
  static TapeState& state(const Tape& tape) { return *tape.state_; }
};

namespace {

/// The code point at the start of `text` and how many bytes it takes; U+FFFD and one byte where none begins there, as for a half
/// of a UTF-16 pair.
std::pair<char32_t, std::size_t> first_character(std::string_view text) {
  const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  char32_t code = lead & (0x7fU >> length);
  bool good = lead >= 0xc2 && lead <= 0xf4;
  for (std::size_t i = 1; i < length; ++i) {
    good = good && (byte(i) & 0xc0) == 0x80;
    code = code << 6 | (byte(i) & 0x3f);
  }
  good = good && code >= smallest[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  if (!good) return {0xfffd, 1};
  return {code, length};
}

/// What stands in a label for any bytes: themselves where they are UTF-8 that XML can hold. Control characters, which it cannot
/// (and which would break a line of the graph), become their pictures, U+2400 and up; what is no character becomes U+FFFD.
std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [code, length] = first_character(text);
    if (code < 0x20 || code == 0x7f) {
      out += {'\xe2', '\x90', static_cast<char>(code == 0x7f ? 0xa1 : 0x80 + code)};
    } else if ((code == 0xfffd && length == 1) || code == 0xfffe || code == 0xffff) {
      out += "\ufffd";
    } else {
      if (code == '"' || code == '\\') out += '\\';
      out += text.substr(0, length);
      if (code == '&') out += "amp;";  // Graphviz reads entities: "&#1;" would be a control character again
    }
    text.remove_prefix(length);
  }
  return out;
}

class Writer {
 public:
  Writer(detail::TapeState& tape, const std::vector<GraphName>& names) : tape_(tape) {
    for (const GraphName& named : names) {
      const detail::Link& link = detail::Access::link(named.x);
      if (detail::living_tape(link) != &tape)
        fail("graph_to_dot: {} must be recorded on this tape; got {}; name what watch() or an op on it returned",
             named.name, named.x.defined() ? "a tensor that is not" : "an empty handle");
      names_[link.value] = named.name;
    }
  }

  std::string str() {
    for (std::size_t i = 0; i < tape_.nodes.size(); ++i) add_node(*tape_.nodes[i], fmt::format("n{}", i));
    return "digraph tape {\n  graph [ordering=in];\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n" +
           lines_ + "}\n";
  }

 private:
  void add_node(detail::Node& node, const std::string& id) {
    std::string edges, shapes, name;
    bool watched = false;
    for (std::uint32_t i = 0; i < node.inputs; ++i)
      edges += fmt::format("  {} -> {};\n", id_of(node.input_values()[i]), id);
    const detail::Value* output = node.first_output();
    for (int i = 0; i < node.outputs; ++i) {
      ids_[output] = id;
      shapes += (i > 0 ? " " : "") + to_string(output->shape());
      if (const auto found = names_.find(output); found != names_.end()) name = found->second;
      watched = watched || output->target;
      output = const_cast<detail::Value*>(output)->next();
    }
    const std::string_view op = node.info ? node.info->name : std::string_view();
    const std::string title = name.empty() ? std::string(node.info ? op : "leaf")
                              : node.info  ? fmt::format("{} = {}", name, op)
                                           : name;
    add(id, fmt::format("{}{}", node.info ? "op" : "leaf", watched ? " watched" : ""), title, shapes);
    lines_ += edges;
  }

  /// The node that an input comes from; a constant gets one when it is first met.
  const std::string& id_of(const detail::Value* value) {
    std::string& id = ids_[value];
    if (id.empty()) {
      id = fmt::format("c{}", constants_++);
      add(id, "constant", "constant", to_string(value->shape()));
    }
    return id;
  }

  void add(const std::string& id, std::string_view kind, std::string_view title, std::string_view shapes) {
    // In the drawing these are presentation attributes, to which any rule of a style sheet is prior.
    std::string look;
    if (kind.starts_with("leaf")) look += ", fillcolor=\"#d9eaf3\"";
    if (kind.ends_with("watched")) look += ", penwidth=2";
    if (kind == "constant") look += ", style=\"rounded,filled,dashed\", fontcolor=\"#5d6570\"";
    lines_ += fmt::format("  {} [class=\"{}\", label=\"{}\\n{}\"{}];\n", id, kind, escaped(title), shapes, look);
  }

  detail::TapeState& tape_;
  std::unordered_map<const detail::Value*, std::string> names_, ids_;
  int constants_ = 0;
  std::string lines_;
};

}  // namespace

std::string graph_to_dot(const Tape& tape, const std::vector<GraphName>& names) {
  detail::TapeState& state = detail::TapeDoor::state(tape);
  if (state.consumed && state.nodes.empty())
    fail(
        "graph_to_dot: the tape must still hold its calls; got a tape that a backward consumed; draw it before, or "
        "pass "
        "{{.keep = true}} to that backward");
  return Writer(state, names).str();
}

std::optional<std::string> graph_to_svg(const Tape& tape, const std::vector<GraphName>& names) {
  const std::string dot = graph_to_dot(tape, names);
  // A file without a name: the other program opens it by its number, and nothing is left behind whatever happens.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> source(std::tmpfile(), &std::fclose);
  if (!source || std::fwrite(dot.data(), 1, dot.size(), source.get()) != dot.size() || std::fflush(source.get()) != 0)
    return std::nullopt;
  const std::string command = fmt::format("dot -Tsvg /dev/fd/{} 2>/dev/null", fileno(source.get()));
  std::FILE* drawing = popen(command.c_str(), "r");
  if (!drawing) return std::nullopt;
  std::string svg;
  char piece[4096];
  for (std::size_t read = 0; (read = std::fread(piece, 1, sizeof piece, drawing)) > 0;) svg.append(piece, read);
  const bool done = pclose(drawing) == 0;
  const std::size_t begin = svg.find("<svg");  // without the XML prologue, which only files need
  if (!done || begin == std::string::npos) return std::nullopt;
  return svg.substr(begin);
}

}  // namespace capstan
