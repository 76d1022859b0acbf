// Prints what the benchmarks wrote as a table in Markdown:   bench_table [--before FOLDER] FILE.json…
// Of repeated benchmarks the median counts. "of peak" is the rate over the fused multiply-adds that the same program measured in
// registers on as many threads before it began; "before" is the time of the same benchmark in the file of the same name in
// FOLDER over this one: 2.00 is twice as fast as then.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::json;

struct Row {
  std::string name;
  double nanoseconds = 0;
  double rate = 0, bytes = 0, peak = 0;  // 0: not given
  std::vector<std::string> more;         // other counters
};

struct Run {
  std::string simd, threads;
  std::vector<Row> rows;
};

std::string text_of(double value, std::initializer_list<const char*> units, double step) {
  auto unit = units.begin();
  while (value >= step && unit + 1 != units.end()) {
    value /= step;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, *unit);
}

double nanoseconds(const Json& entry) {
  static const std::map<std::string, double> units = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  return entry.at("real_time").get<double>() * units.at(entry.at("time_unit").get<std::string>());
}

/// The name without what the library adds for the clock.
std::string plain(std::string name) {
  const std::string suffix = "/real_time";
  if (const std::size_t at = name.find(suffix); at != std::string::npos) name.erase(at, suffix.size());
  return name;
}

/// What every entry has; the rest are counters of the benchmark's own.
const std::set<std::string> of_the_library = {
    "family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations", "real_time",
    "cpu_time",     "aggregate_unit",            "GFLOP/s",     "bytes"};

std::string counter(const std::string& name, double value) {
  if (name == "per_op") return fmt::format("{:.0f} ns an op", value * 1e9);
  return fmt::format("{} {:.4g}", name, value);
}

Run read(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("it cannot be opened");
  const Json json = Json::parse(in);
  const Json& context = json.at("context");
  Run run{context.value("simd", ""), context.value("threads", ""), {}};
  for (const Json& entry : json.at("benchmarks")) {
    if (entry.contains("error_occurred")) throw std::runtime_error(entry.at("error_message").get<std::string>());
    if (entry.at("run_type") == "aggregate" && entry.at("aggregate_name") != "median") continue;
    Row row{plain(entry.value("run_name", entry.at("name").get<std::string>())), nanoseconds(entry), 0, 0, 0, {}};
    row.rate = entry.value("GFLOP/s", 0.0);
    row.bytes = entry.value("bytes", 0.0);
    row.peak = std::stod(context.value(row.name.find("f64") != std::string::npos ? "fma_peak_f64" : "fma_peak_f32", "0"));
    for (const auto& [key, value] : entry.items())
      if (value.is_number() && !of_the_library.contains(key)) row.more.push_back(counter(key, value.get<double>()));
    run.rows.push_back(std::move(row));
  }
  return run;
}

void print(const std::filesystem::path& file, const std::filesystem::path& before_folder) {
  const Run run = read(file);
  std::map<std::string, double> before;
  if (const auto old = before_folder / file.filename(); !before_folder.empty() && std::filesystem::exists(old))
    for (const Row& row : read(old).rows) before[row.name] = row.nanoseconds;

  fmt::print("\n**{}**, {} thread{}, {}\n\n", file.stem().string(), run.threads, run.threads == "1" ? "" : "s", run.simd);
  fmt::print("| benchmark | time | GFLOP/s | of peak | bytes | before | |\n|---|---|---|---|---|---|---|\n");
  for (const Row& row : run.rows) {
    const auto old = before.find(row.name);
    fmt::print("| {} | {} | {} | {} | {} | {} | {} |\n", row.name, text_of(row.nanoseconds, {"ns", "µs", "ms", "s"}, 1000),
               row.rate > 0 ? fmt::format("{:.1f}", row.rate) : "",
               row.rate > 0 && row.peak > 0 ? fmt::format("{:.0f} %", 100 * row.rate / row.peak) : "",
               row.bytes > 0 ? text_of(row.bytes, {"B", "KiB", "MiB", "GiB"}, 1024) : "",
               old != before.end() ? fmt::format("{:.2f}", old->second / row.nanoseconds) : "",
               fmt::join(row.more, ", "));
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::filesystem::path before;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--before" && i + 1 < count) {
      before = arguments[++i];
    } else {
      files.emplace_back(argument);
    }
  }
  if (files.empty() || files[0] == "--help") {
    fmt::print(stderr, "usage: bench_table [--before FOLDER] FILE.json…\n");
    return 2;
  }
  for (const auto& file : files) {
    try {
      print(file, before);
    } catch (const std::exception& error) {
      fmt::print(stderr, "bench_table: {} must be what a benchmark wrote as JSON; {}\n", file.string(), error.what());
      return 1;
    }
  }
}
