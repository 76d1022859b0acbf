// metrics.csv: one row a measured step, kept in step with the checkpoint. Not for: what the terminal shows (see progress.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::train_gpt {

/// What one row holds; what was not measured stays an empty field. Losses in nats per byte; `seconds` is training time
/// since step 0, over all runs. The row of step 0 holds the validation loss before any training.
struct Metrics {
  std::int64_t step = 0;
  std::optional<double> train_loss{};
  std::optional<double> val_loss{};
  std::optional<double> learning_rate{};
  std::optional<double> gradient_norm{};
  std::optional<double> tokens_per_s{};
  std::optional<double> seconds{};
};

/// "step,train_loss,val_loss,learning_rate,gradient_norm,tokens_per_s,seconds", no line feed.
std::string metrics_header();
/// One row without its line feed. Losses, rate and norm in the shortest form that reads back as the same f64.
std::string metrics_row(const Metrics& metrics);

/// All rows of such a file, in order. Throws Error if it cannot be read, or the header or a row is not ours.
std::vector<Metrics> read_metrics(const std::filesystem::path& path);

class MetricsFile {
 public:
  /// A new file with nothing but its header; an old one of that name is replaced.
  static MetricsFile create(const std::filesystem::path& path);

  /// Goes on with the file of a run that is resumed after `step` steps: rows of later steps are removed, as is a last
  /// line without its line feed (the run was killed as it wrote). The old file is replaced in one move or not at all.
  /// A missing file is created. Throws Error if the header or a row is not ours.
  static MetricsFile resume(const std::filesystem::path& path, std::int64_t step);

  /// Writes the row through to the system, so that a killed program loses none. Throws Error if the disk refuses.
  void append(const Metrics& metrics);

  /// The `seconds` of the last row that resume kept and that has them; 0 in a new file.
  double seconds() const { return seconds_; }

 private:
  MetricsFile(const std::filesystem::path& path, const char* mode);
  void write_line(const std::string& line);

  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  double seconds_ = 0;
};

}  // namespace capstan::train_gpt
