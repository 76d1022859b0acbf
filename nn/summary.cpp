#include <capstan/autograd/format.h>
#include <capstan/nn/summary.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace capstan::nn::detail {

namespace {

/// "blocks.12.mlp.up.weight" → "blocks.*.mlp.up.weight".
std::string folded(const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < name.size();) {
    const bool starts_piece = i == 0 || name[i - 1] == '.';
    std::size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    if (starts_piece && end > i && (end == name.size() || name[end] == '.')) {
      out += '*';
      i = end;
    } else {
      out += name[i++];
    }
  }
  return out;
}

/// 1234567 → "1 234 567".
std::string grouped(Index count) {
  const std::string digits = fmt::format("{}", count);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ' ';
    out += digits[i];
  }
  return out;
}

struct Line {
  std::string name;
  Shape shape;
  DType dtype;
  bool trained;
  Index times;
};

}  // namespace

std::string summary_table(const std::vector<SummaryRow>& rows) {
  std::vector<Line> lines;
  std::map<std::string, std::size_t> place;
  for (const SummaryRow& row : rows) {
    const std::string key = fmt::format("{} {} {}", folded(row.name), row.shape, row.dtype);
    const auto [found, added] = place.emplace(key, lines.size());
    if (added)
      lines.push_back({folded(row.name), row.shape, row.dtype, row.trained, 1});
    else
      ++lines[found->second].times;
  }
  std::size_t width = std::string_view("total trained").size();
  for (const Line& line : lines)
    width = std::max({width, line.name.size(), line.trained ? 0 : std::string_view("total not trained").size()});
  std::string out = fmt::format("{:<{}}  {:<16} {:>5} {:>14}\n", "parameter", width, "shape", "times", "elements");
  Index trained = 0, fixed = 0;
  for (const Line& line : lines) {
    const Index elements = line.times * line.shape.elements();
    (line.trained ? trained : fixed) += elements;
    out += fmt::format("{:<{}}  {:<16} {:>5} {:>14}{}\n", line.name, width, to_string(line.shape), line.times,
                       grouped(elements), line.trained ? "" : "  not trained");
  }
  out += fmt::format("{:<{}}  {:<16} {:>5} {:>14}\n", "total trained", width, "", "", grouped(trained));
  if (fixed > 0)
    out += fmt::format("{:<{}}  {:<16} {:>5} {:>14}\n", "total not trained", width, "", "", grouped(fixed));
  return out;
}

}  // namespace capstan::nn::detail
