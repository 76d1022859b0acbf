// One HTML page that needs nothing else: the shared frame, style and drawing script, around a page's own body, script and
// data. Not for: what the pages say (lesson/, train_gpt/report.cpp).
#pragma once

#include <capstan/autograd/tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace capstan::drawing {

using Json = nlohmann::ordered_json;  // keys stay in order: the same page has the same bytes

struct Page {
  std::string_view title;
  std::string_view body;    // HTML
  std::string_view style;   // CSS after the shared one
  std::string_view script;  // JavaScript after the shared one; `data` is its data
  Json data;
};

/// The whole page as UTF-8. Text of the data cannot end the element that holds it, whatever it says.
std::string render(const Page& page);

/// A number with six significant digits, enough to be read and few enough to be small; "NaN", "∞" and "−∞" as text.
Json rounded(double value);
/// {"shape": [...], "values": [...]} in row-major order.
Json to_json(const Tensor& x);

/// Writes a file; throws Error if that fails.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace capstan::drawing
