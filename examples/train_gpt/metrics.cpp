// Rows and their cutting back; see metrics.h.
#include "metrics.h"

#include <capstan/autograd/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

namespace capstan::train_gpt {
namespace fs = std::filesystem;
namespace {

/// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct Kept {
  std::string content;
  double seconds = 0;
};

/// The lines of `content` up to and including `step`.
Kept rows_up_to(const std::string& content, std::int64_t step, const fs::path& path) {
  const std::string header = metrics_header();
  const auto commas = std::count(header.begin(), header.end(), ',');
  Kept kept;
  std::size_t begin = 0;
  for (std::int64_t number = 1; begin < content.size(); ++number) {
    const std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string_view line(content.data() + begin, end - begin);
    begin = end + 1;
    if (number == 1) {
      if (line != header)
        fail("metrics: line 1 of {} must be \"{}\"; got \"{}\"; move that file away", path.string(), header, line);
    } else {
      const auto row_step = read_number<std::int64_t>(line.substr(0, line.find(',')));
      if (!row_step || std::count(line.begin(), line.end(), ',') != commas)
        fail("metrics: line {} of {} must hold a step and {} more fields; got \"{}\"; move that file away", number,
             path.string(), commas, line);
      if (*row_step > step) continue;
      if (const auto seconds = read_number<double>(line.substr(line.rfind(',') + 1))) kept.seconds = *seconds;
    }
    kept.content.append(line).push_back('\n');
  }
  if (kept.content.empty()) kept.content = header + '\n';
  return kept;
}

/// Written beside the file and moved over it, so that a crash leaves the old one or the new one.
void replace_file(const fs::path& path, const std::string& content) {
  fs::path beside = path;
  beside += ".new";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(beside.c_str(), "wb"), &std::fclose);
  const bool written = file && std::fwrite(content.data(), 1, content.size(), file.get()) == content.size() &&
                       std::fflush(file.get()) == 0 && fsync(fileno(file.get())) == 0;
  if (!written || std::rename(beside.c_str(), path.c_str()) != 0)
    fail("metrics: {} must be writable; got \"{}\"", path.string(), std::strerror(errno));
}

}  // namespace

std::string metrics_header() { return "step,train_loss,val_loss,learning_rate,gradient_norm,tokens_per_s,seconds"; }

std::string metrics_row(const Metrics& metrics) {
  std::string row = fmt::format("{}", metrics.step);
  for (const auto& exact : {metrics.train_loss, metrics.val_loss, metrics.learning_rate, metrics.gradient_norm})
    row += exact ? fmt::format(",{}", *exact) : ",";
  row += metrics.tokens_per_s ? fmt::format(",{:.1f}", *metrics.tokens_per_s) : ",";
  row += metrics.seconds ? fmt::format(",{:.3f}", *metrics.seconds) : ",";
  return row;
}

std::vector<Metrics> read_metrics(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line != metrics_header())
    fail("metrics: line 1 of {} must be \"{}\"; got \"{}\"", path.string(), metrics_header(), line);
  std::vector<Metrics> rows;
  while (std::getline(file, line)) {
    std::vector<std::string_view> fields;
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      fields.push_back(std::string_view(line).substr(begin, end - begin));
      begin = end + 1;
    }
    const auto step = read_number<std::int64_t>(fields[0]);
    if (!step || fields.size() != 7)
      fail("metrics: line {} of {} must hold a step and 6 more fields; got \"{}\"", rows.size() + 2, path.string(),
           line);
    const auto field = [&](std::size_t i) { return read_number<double>(fields[i]); };
    rows.push_back({*step, field(1), field(2), field(3), field(4), field(5), field(6)});
  }
  return rows;
}

MetricsFile::MetricsFile(const fs::path& path, const char* mode)
    : name_(path.string()), file_(std::fopen(path.c_str(), mode), &std::fclose) {
  if (!file_) fail("metrics: {} must be writable; got \"{}\"", name_, std::strerror(errno));
}

MetricsFile MetricsFile::create(const fs::path& path) {
  MetricsFile file(path, "wb");
  file.write_line(metrics_header());
  return file;
}

MetricsFile MetricsFile::resume(const fs::path& path, std::int64_t step) {
  if (!fs::exists(path)) return create(path);
  std::ifstream old(path, std::ios::binary);
  std::ostringstream content;
  content << old.rdbuf();
  if (!old) fail("metrics: {} must be readable; got \"{}\"", path.string(), std::strerror(errno));
  const Kept kept = rows_up_to(content.str(), step, path);
  replace_file(path, kept.content);
  MetricsFile file(path, "ab");
  file.seconds_ = kept.seconds;
  return file;
}

void MetricsFile::append(const Metrics& metrics) { write_line(metrics_row(metrics)); }

void MetricsFile::write_line(const std::string& line) {
  const std::string whole = line + '\n';
  if (std::fwrite(whole.data(), 1, whole.size(), file_.get()) != whole.size() || std::fflush(file_.get()) != 0)
    fail("metrics: {} must be writable; got \"{}\"", name_, std::strerror(errno));
}

}  // namespace capstan::train_gpt
