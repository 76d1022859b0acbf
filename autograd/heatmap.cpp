// Cells, labels and their widths; see heatmap.h.
#include <capstan/autograd/format.h>
#include <capstan/autograd/heatmap.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace capstan {

namespace {

/// Columns that UTF-8 text takes on a terminal: two for East Asian wide characters, none for combining marks.
std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    std::uint32_t code = bytes == 1 ? first : first & (0x7Fu >> bytes);
    for (std::size_t k = 1; k < bytes && i + k < text.size(); ++k)
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3F);
    i += bytes;
    const auto within = [code](std::uint32_t low, std::uint32_t high) { return low <= code && code <= high; };
    if (within(0x300, 0x36F)) continue;
    const bool wide = within(0x1100, 0x115F) || within(0x2E80, 0xA4CF) || within(0xAC00, 0xD7A3) ||
                      within(0xF900, 0xFAFF) || within(0xFE30, 0xFE6F) || within(0xFF00, 0xFF60) ||
                      within(0xFFE0, 0xFFE6) || within(0x1F300, 0x1FAFF) || within(0x20000, 0x3FFFD);
    columns += wide ? 2 : 1;
  }
  return columns;
}

std::string padding(std::string_view text, std::size_t width) {
  return std::string(width - std::min(columns_of(text), width), ' ');
}

// Of the 256 colours, from white to a strong blue or orange. Ground and ink are both set: on a dark terminal as on a light
// one, pale is small.
constexpr int levels = 7;
constexpr int blues[levels] = {231, 195, 153, 117, 75, 33, 26};
constexpr int oranges[levels] = {231, 230, 223, 216, 215, 208, 166};
constexpr int white = 231, black = 16;

std::string coloured(const std::string& cell, double value, double largest) {
  if (!std::isfinite(value)) return cell;
  const double part = largest > 0 ? std::abs(value) / largest : 0;
  const int level = static_cast<int>(std::lround(part * (levels - 1)));
  const int ground = (value < 0 ? oranges : blues)[level];
  return fmt::format("\x1b[48;5;{};38;5;{}m{}\x1b[0m", ground, level == levels - 1 ? white : black, cell);
}

void require_labels(const char* what, const std::vector<std::string>& labels, Index count) {
  if (!labels.empty() && static_cast<Index>(labels.size()) != count)
    fail("heatmap: there must be a label for each {}; got {} for {}; pass none to leave them out", what, labels.size(),
         count);
}

}  // namespace

std::string heatmap(const Tensor& x, const std::vector<std::string>& rows, const std::vector<std::string>& columns,
                    bool colour) {
  if (x.rank() != 2)
    fail("heatmap: x must be a matrix; got {}; slice() and reshape() it to the one to show", x.shape());
  const Index height = x.size(0), width = x.size(1);
  const bool shared = columns.empty() && height == width;
  const std::vector<std::string>& heads = shared ? rows : columns;
  require_labels("row", rows, height);
  require_labels("column", heads, width);

  const std::vector<double> values = x.to_doubles();
  std::vector<std::string> cells;
  double largest = 0;
  std::size_t cell_width = 0, label_width = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  const bool extreme = largest >= 1e5 || (largest > 0 && largest < 0.005);  // two decimals would be wide, or all 0.00
  for (const double value : values) {
    const double near = std::abs(value) < 0.005 ? 0.0 : value;  // never "-0.00"
    cells.push_back(extreme ? fmt::format("{:.3g}", value + 0.0) : fmt::format("{:.2f}", near));
    cell_width = std::max(cell_width, cells.back().size());
  }
  for (const std::string& head : heads) cell_width = std::max(cell_width, columns_of(head));
  for (const std::string& row : rows) label_width = std::max(label_width, columns_of(row));
  const std::string indent(label_width > 0 ? label_width + 2 : 0, ' ');

  std::string out;
  for (std::size_t j = 0; j < heads.size(); ++j)
    out += (j == 0 ? indent : " ") + padding(heads[j], cell_width) + heads[j];
  if (!heads.empty()) out += '\n';
  for (Index i = 0; i < height; ++i) {
    if (!rows.empty()) {
      const std::string& label = rows[static_cast<std::size_t>(i)];
      out += label + padding(label, label_width + 2);
    }
    for (Index j = 0; j < width; ++j) {
      const auto at = static_cast<std::size_t>(i * width + j);
      const std::string cell = padding(cells[at], cell_width) + cells[at];
      out += (j == 0 ? "" : " ") + (colour ? coloured(cell, values[at], largest) : cell);
    }
    out += '\n';
  }
  return out;
}

void print_heatmap(const Tensor& x, const std::vector<std::string>& rows, const std::vector<std::string>& columns,
                   std::FILE* out) {
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool plain = (no_colour && *no_colour) || (terminal && std::string_view(terminal) == "dumb");
  const std::string text = heatmap(x, rows, columns, !plain && isatty(fileno(out)) != 0);
  std::fwrite(text.data(), 1, text.size(), out);
}

}  // namespace capstan
