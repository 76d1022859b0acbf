#include "mutation/sites.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

namespace capstan::mutation {
namespace {

/// A kind of fault: what it looks for, and what it writes instead ($1… are groups of the pattern).
struct Fault {
  const char* name;
  std::regex pattern;
  const char* replacement;
};

// An operand as it stands beside an operator: a name, a call or an element, with at most one level of brackets inside.
#define OPERAND R"([A-Za-z_][\w.]*(?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])?)"
#define ARGUMENT R"((-?[\w.]+(?:\([^()]*\)|\[[^\[\]]*\])?))"

/// The faults that are planted. Sums of pointers and indices, products and calls all look alike here: what does not
/// compile is counted apart.
const std::vector<Fault>& faults() {
  static const std::vector<Fault> list = [] {
    std::vector<Fault> faults;
    const auto add = [&faults](const char* name, const char* pattern, const char* replacement) {
      faults.push_back({name, std::regex(pattern), replacement});
    };
    add("sign", R"( \+ )", " - ");
    add("sign", R"( - )", " + ");
    add("sign", R"(\+= )", "-= ");
    add("sign", R"(-= )", "+= ");
    add("sign", R"(\bneg\()", "(");
    add("sign", R"(([\(,{] ?)-([A-Za-z(]))", "$1$2");
    add("sign", R"(hn::Add\()", "hn::Sub(");
    add("sign", R"(hn::Sub\()", "hn::Add(");
    add("sign", R"(hn::MulAdd\()", "hn::MulSub(");
    add("sign", R"(hn::NegMulAdd\()", "hn::MulAdd(");
    add("sign", R"(hn::Neg\()", "(");
    add("operation", R"( \* )", " / ");
    add("operation", R"( / )", " * ");
    add("operation", R"(hn::Mul\()", "hn::Add(");
    add("operation", R"(hn::Div\()", "hn::Mul(");
    add("operation", R"(\bstd::min\b)", "std::max");
    add("operation", R"(\bstd::max\b)", "std::min");
    add("operation", R"(hn::Min\()", "hn::Max(");
    add("operation", R"(hn::Max\()", "hn::Min(");
    add("dropped term", R"( [+-] )" OPERAND, "");
    add("dropped term", R"( [*/] )" OPERAND, "");
    add("dropped term", OPERAND R"( [*+] )", "");
    add("operand order",
        R"(\b(matmul|sub|div|pow|outer|rotate|shift|hn::Sub|hn::Div)\()" ARGUMENT ", " ARGUMENT R"(\))", "$1($3, $2)");
    add("operand order", R"(\b(where|hn::IfThenElse)\()" ARGUMENT ", " ARGUMENT ", " ARGUMENT R"(\))",
        "$1($2, $4, $3)");
    add("operand order", "(" OPERAND ") ([-/]) (" OPERAND ")", "$3 $2 $1");
    add("operand order", R"((\? )([^?:]+)( : )([^;:]+);)", "$1$4$3$2;");
    add("axis", R"(\baxis([,)]))", "axis - 1$1");
    add("axis", R"((, | == )-1\))", "$1-2)");
    add("axis", R"(\b(rows|strides?|sizes?)\(([a-z]+)\))", "$1($2 + 1)");
    add("saved value", R"(\bc\.in\(0\))", "c.in(1)");
    add("saved value", R"(\bc\.in\(1\))", "c.in(0)");
    add("saved value", R"(\bc\.(in|out)\(0\))", "c.dout(0)");
    add("saved value", R"(\bc\.dout\(0\))", "c.out(0)");
    add("saved value", R"(wants\(0\))", "wants(1)");
    add("factor", R"(\b2\.0\b|\b2 \* )", "2.002 * ");
    add("factor", R"(\b0\.5f?\b)", "0.5005");
    add("factor", R"(\b1\.0\b)", "1.001");
    add("factor", R"(\bscale\((.*), (-?\w+)\))", "scale($1, $2 * 1.001)");
    add("comparison", R"( < )", " <= ");
    add("comparison", R"( <= )", " < ");
    add("comparison", R"( > )", " >= ");
    add("comparison", R"( >= )", " > ");
    add("comparison", R"( == )", " != ");
    add("comparison", R"( != )", " == ");
    add("comparison", R"(\bhn::Lt\()", "hn::Le(");
    add("comparison", R"(\bhn::Gt\()", "hn::Ge(");
    add("comparison", R"(\bhn::Ge\()", "hn::Gt(");
    add("comparison", R"(\b(equal|less|greater)\()", "$1_equal(");
    add("logic", R"( && )", " || ");
    add("logic", R"( \|\| )", " && ");
    add("logic", R"(!([a-z_]+\b))", "$1");
    add("logic", R"(\blogical_and\()", "logical_or(");
    add("logic", R"( &= )", " |= ");
    add("logic", R"( \|= )", " &= ");
    add("logic", R"(\btrue\b)", "false");
    add("logic", R"(\bfalse\b)", "true");
    add("off by one", R"( \+ 1\b)", "");
    add("off by one", R"( - 1\b)", "");
    add("off by one", R"(\b([ijkrc]|row|block|begin) = 0;)", "$1 = 1;");
    add("off by one", R"(\b([ijkrc]|row) < (\w+(?:\(\))?);)", "$1 < $2 - 1;");
    add("off by one", R"(, (count|length|rows|columns|keys|n)\))", ", $1 - 1)");
    return faults;
  }();
  return list;
}

/// The text with comments and string literals replaced by blanks, so that columns stay.
std::string code_of(const std::string& text) {
  std::string code = text;
  enum { plain, line_comment, block_comment, string, character } in = plain;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const char now = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (now == '\n') {
      if (in == line_comment) in = plain;
      continue;
    }
    if (in == plain) {
      if (now == '/' && next == '/') in = line_comment;
      if (now == '/' && next == '*') in = block_comment;
      if (now == '"') in = string;
      // A quote within a number, 1'000, opens nothing.
      if (now == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1])))) in = character;
      if (in != plain) code[i] = ' ';
      continue;
    }
    code[i] = ' ';
    const bool escaped = now == '\\' && (in == string || in == character);
    if (escaped && next != '\n') code[++i] = ' ';
    if ((in == string && now == '"') || (in == character && now == '\'')) in = plain;
    if (in == block_comment && now == '*' && next == '/') {
      code[++i] = ' ';
      in = plain;
    }
  }
  return code;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Follows the lines of a file and says which unit each belongs to; "" for none.
class Units {
 public:
  explicit Units(const std::string& file) : file_(std::filesystem::path(file).filename().string()) {
    kernel_ = file.find("kernels/") != std::string::npos;
  }

  /// Of rules only the bodies of vjp and vjp_kernel count: infer refuses, reads declares, eval calls kernels.
  std::string next(const std::string& code, const std::string& text) {
    std::smatch match;
    if (kernel_) return "kernel " + file_;
    if (std::regex_search(text, match, name_)) op_ = match[1];
    if (std::regex_search(code, match, struct_)) {
      struct_name_ = match[1];
      function_.clear();
      in_rule_ = false;
    } else if (!code.empty() && std::isalpha(static_cast<unsigned char>(code[0])) != 0 &&
               std::regex_search(code, match, function_head_)) {
      function_ = match[1];
      struct_name_.clear();
      op_.clear();
    }
    if (struct_name_.empty()) return function_.empty() ? "" : (file_ == "mask.cpp" ? "mask " : "function ") + function_;
    if (code.starts_with("  Tensors vjp")) in_rule_ = true;
    const bool belongs = in_rule_;
    if (in_rule_ && (code.starts_with("  }") || (code.starts_with("  Tensors vjp") && code.ends_with("}"))))
      in_rule_ = false;
    return belongs ? "rule " + struct_name_ : "";
  }
  const std::string& op() const { return op_; }

 private:
  std::string file_, struct_name_, function_, op_;
  bool kernel_ = false, in_rule_ = false;
  std::regex struct_{R"(^(?:template <.*> )?(?:struct|class) (\w+))"};
  std::regex name_{R"(string_view name = \"(\w+)\")"};
  std::regex function_head_{R"(([\w:]+|operator\S+)\(.*(\{|,$))"};
};

/// Lines that refuse, declare or switch: nothing of a result stands there.
bool is_skipped(const std::string& code) {
  static const std::regex skipped(
      R"(^\s*#|\bfail\(|\brequire\w*\(|\bstatic_assert|^\s*template|^\s*using |\bgrain\b|_grain|\bcase |^\s*namespace)");
  return std::regex_search(code, skipped);
}

}  // namespace

std::vector<Site> sites_of(const std::string& file, const std::string& text) {
  std::vector<Site> sites;
  const std::vector<std::string> lines = lines_of(text), codes = lines_of(code_of(text));
  Units units(file);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::string unit = units.next(codes[i], lines[i]);
    if (unit.empty() || is_skipped(codes[i])) continue;
    for (const Fault& fault : faults()) {
      for (std::sregex_iterator match(codes[i].begin(), codes[i].end(), fault.pattern), end; match != end; ++match) {
        std::string replacement = match->format(fault.replacement);
        if (replacement == match->str()) continue;
        sites.push_back({unit, units.op(), fault.name, file, i, static_cast<std::size_t>(match->position()),
                         static_cast<std::size_t>(match->length()), std::move(replacement)});
      }
    }
  }
  return sites;
}

std::vector<Site> all_sites(const std::filesystem::path& root) {
  std::vector<std::string> files;
  for (const char* folder : {"ops", "ops/kernels"})
    for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
      const std::string name = entry.path().filename().string();
      const bool source = name.ends_with(".cpp") || name.ends_with("-inl.h");
      // What only starts threads, names targets or refuses computes nothing.
      const bool machinery = name.starts_with("parallel") || name.starts_with("simd_targets") || name == "require.cpp";
      if (source && !machinery) files.push_back((std::filesystem::path(folder) / name).generic_string());
    }
  files.push_back("autograd/accumulate.cpp");
  std::ranges::sort(files);
  std::vector<Site> sites;
  for (const std::string& file : files) {
    std::ifstream stream(root / file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    std::ranges::move(sites_of(file, text), std::back_inserter(sites));
  }
  return sites;
}

std::string planted(const std::string& text, const Site& site) {
  std::size_t start = 0;
  for (std::size_t line = 0; line < site.line; ++line) start = text.find('\n', start) + 1;
  std::string mutant = text;
  return mutant.replace(start + site.begin, site.length, site.replacement);
}

}  // namespace capstan::mutation
