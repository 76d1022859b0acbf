// Writes the nodes of a tape in Graphviz's language, and pipes them through Graphviz; see graph.h.
#include <capstan/autograd/format.h>
#include <capstan/autograd/graph.h>
#include <capstan/autograd/node.h>

#include <cstdio>
#include <memory>
#include <unordered_map>

namespace capstan {

/// The door that Tape opens to its picture.
struct detail::TapeDoor {
  static TapeState& state(const Tape& tape) { return *tape.state_; }
};

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
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
