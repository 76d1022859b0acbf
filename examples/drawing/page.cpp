// The frame's slots are filled in one pass, so that nothing in a filling is taken for a slot; see page.h.
#include "page.h"

#include <capstan/autograd/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "drawing/embedded.h"

namespace capstan::drawing {

namespace {

/// JSON in which "<" is spelt \u003c, so that no text of it is markup.
std::string inert(const Json& data) {
  std::string out;
  for (const char c : data.dump()) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string render(const Page& page) {
  std::string out;
  std::string_view rest = embedded::page_html;
  while (true) {
    const std::size_t open = rest.find("{{");
    if (open == std::string_view::npos) return out.append(rest);
    const std::size_t close = rest.find("}}", open);
    const std::string_view slot = rest.substr(open + 2, close - open - 2);
    out.append(rest.substr(0, open));
    rest.remove_prefix(close + 2);
    if (slot == "title") out.append(page.title);
    if (slot == "style") out.append(embedded::style_css).append(page.style);
    if (slot == "body") out.append(page.body);
    if (slot == "data") out.append(inert(page.data));
    if (slot == "script") out.append(embedded::draw_js).append(page.script);
  }
}

Json rounded(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  const double near = std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
  if (near == std::trunc(near) && std::abs(near) < 1e9) return static_cast<std::int64_t>(near);  // 1, not 1.0
  return near;
}

Json to_json(const Tensor& x) {
  Json shape = Json::array(), values = Json::array();
  for (int i = 0; i < x.rank(); ++i) shape.push_back(x.size(i));
  for (const double value : x.to_doubles()) values.push_back(rounded(value));
  return {{"shape", std::move(shape)}, {"values", std::move(values)}};
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) fail("write: {} must be writable; it is not; name another folder", path.string());
}

}  // namespace capstan::drawing
