// How tensors print: NumPy's way (columns aligned at the point, shortest digits that read back, at most eight decimals, large tensors
// elided), followed by dtype and shape.
#include <capstan/autograd/format.h>
#include <capstan/autograd/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace capstan {

namespace {

constexpr Index elide_above = 1000;  // elements
constexpr Index edge = 3;            // elements shown at either end of an elided axis
constexpr int most_decimals = 8;

/// Calls f(index along the axis) for the shown ones, and gap() where some are left out.
template <class F, class Gap>
void for_each_shown(Index size, bool elided, F&& f, Gap&& gap) {
  const bool cut = elided && size > 2 * edge;
  for (Index i = 0; i < size; ++i) {
    if (cut && i == edge) {
      gap();
      i = size - edge;
    }
    f(i);
  }
}

/// The fewest decimals, at most eight, that read back as the same value.
template <class T>
std::string shortest(T value, bool scientific) {
  std::string text;
  for (int decimals = 0; decimals <= most_decimals; ++decimals) {
    text = scientific ? fmt::format("{:.{}e}", value, decimals) : fmt::format("{:.{}f}", value, decimals);
    if (static_cast<T>(std::strtod(text.c_str(), nullptr)) == value) break;
  }
  if (scientific) return text;
  const std::size_t point = text.find('.');
  if (point == std::string::npos) return text + ".";
  text.erase(std::max(text.find_last_not_of('0'), point) + 1);
  return text;
}

class Printer {
 public:
  explicit Printer(const Tensor& x) : x_(x), elided_(x.elements() > elide_above) {
    if (x.elements() == 0) return;
    collect(0, x.layout().offset());
    format_cells();
  }

  std::string str() {
    if (x_.elements() == 0) return "[]";
    std::string out;
    print(0, out);
    return out;
  }

 private:
  void collect(int axis, Index position) {
    if (axis == x_.rank()) return positions_.push_back(position);
    for_each_shown(
        x_.shape()[axis], elided_, [&](Index i) { collect(axis + 1, position + i * x_.layout().stride(axis)); }, [] {});
  }

  void format_cells() {
    visit_dtype(x_.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* data = static_cast<const T*>(x_.view().bytes);
      if constexpr (std::is_floating_point_v<T>) {
        format_floats(data);
      } else {
        for (const Index position : positions_) {
          if constexpr (std::is_same_v<T, bool>)
            cells_.push_back(data[position] ? "true" : "false");
          else
            cells_.push_back(fmt::format("{}", data[position]));
        }
      }
    });
    std::size_t width = 0;
    for (const std::string& cell : cells_) width = std::max(width, cell.size());
    if (x_.rank() > 0)
      for (std::string& cell : cells_) cell.insert(0, width - cell.size(), ' ');
  }

  template <class T>
  void format_floats(const T* data) {
    double largest = 0, smallest = INFINITY;
    for (const Index position : positions_) {
      const double magnitude = std::abs(static_cast<double>(data[position]));
      if (magnitude == 0 || !std::isfinite(magnitude)) continue;
      largest = std::max(largest, magnitude);
      smallest = std::min(smallest, magnitude);
    }
    const bool scientific = largest >= 1e8 || smallest < 1e-4;
    std::size_t after_point = 0;
    for (const Index position : positions_) {
      const T value = data[position];
      cells_.push_back(std::isfinite(value) ? shortest(value, scientific) : fmt::format("{}", value));
      const std::size_t point = cells_.back().find('.');
      if (!scientific && point != std::string::npos)
        after_point = std::max(after_point, cells_.back().size() - point - 1);
    }
    if (scientific || x_.rank() == 0) return;
    for (std::string& cell : cells_) {  // points under each other
      const std::size_t point = cell.find('.');
      cell.append(point == std::string::npos ? 0 : after_point - (cell.size() - point - 1), ' ');
    }
  }

  void print(int axis, std::string& out) {
    if (axis == x_.rank()) {
      out += cells_[next_++];
      return;
    }
    const bool innermost = axis == x_.rank() - 1;
    // Rows stand under each other; an outer axis adds an empty line between its items.
    const std::string separator = innermost ? " "
                                            : std::string(static_cast<std::size_t>(x_.rank() - 1 - axis), '\n') +
                                                  std::string(static_cast<std::size_t>(axis) + 1, ' ');
    bool first = true;
    out += '[';
    for_each_shown(
        x_.shape()[axis], elided_,
        [&](Index) {
          if (!first) out += separator;
          first = false;
          print(axis + 1, out);
        },
        [&] { out += separator + "..."; });
    out += ']';
  }

  const Tensor& x_;
  bool elided_;
  std::vector<Index> positions_;
  std::vector<std::string> cells_;
  std::size_t next_ = 0;
};

}  // namespace

std::string to_string(const Tensor& x) {
  if (!x.defined()) return "empty handle";
  return fmt::format("{}  {} {}", Printer(x).str(), x.dtype(), x.shape());
}

}  // namespace capstan
