// The command line of train_gpt, and what of it a checkpoint remembers. Not for: reading the checkpoint or the data.
#pragma once

#include <capstan/nn/schedule.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace capstan::train_gpt {

struct Options {
  // Input and output
  std::vector<std::string> data{};  // empty: the project's own sources
  std::string out = "build/train_gpt";
  bool resume = false;
  std::string checkpoint{};  // what to resume from; empty: the one in `out`

  // Model
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t blocks = 4;
  std::int64_t context = 128;

  // Training
  std::int64_t batch = 16;
  std::int64_t steps = 1000;
  double seconds = 170;  // of training, in this run; 0 = no limit
  double lr = 3e-3;
  double min_lr = 3e-3 / 10;
  std::int64_t warmup = 100;
  double weight_decay = 0.1;
  double clip = 1;  // largest norm of all gradients together; 0 = no limit
  std::uint64_t seed = 1;

  // Watching
  std::int64_t eval_every = 100;        // 0 = at the end only
  std::int64_t eval_windows = 512;      // most windows looked at before the end
  std::int64_t checkpoint_every = 100;  // 0 = at the end only

  // Sample
  std::string prompt{};
  std::int64_t sample_bytes = 300;
  double temperature = 0.8;  // 0 = always the likeliest byte

  std::set<std::string> given{};  // names as on the command line ("--width") of the options that were there
  std::string help{};             // what --help prints; empty when it was not asked for

  bool is_given(const std::string& name) const { return given.count(name) > 0; }
  nn::CosineWithWarmup schedule() const { return {.peak = lr, .lowest = min_lr, .warmup = warmup, .steps = steps}; }

  std::filesystem::path metrics_file() const { return std::filesystem::path(out) / "metrics.csv"; }
  std::filesystem::path report_file() const { return std::filesystem::path(out) / "report.html"; }
  /// Where this run saves.
  std::filesystem::path checkpoint_file() const { return std::filesystem::path(out) / "checkpoint.safetensors"; }
  /// What --resume reads: the file given with it, the checkpoint in the folder given with it, or the one in --out.
  std::filesystem::path resume_file() const;
};

/// Reads the command line; what is not there keeps its default, and some defaults follow from others: --min-lr is a tenth
/// of --lr, --warmup a tenth of --steps but at most 100 steps, --seconds no limit once --steps or --resume is given, and
/// --out with `--resume FILE` the folder of that file. Throws Error, one sentence, for anything unknown, malformed or out of
/// its range.
Options parse_options(int count, const char* const* arguments);

/// The same checks on options that come from elsewhere.
void check(const Options& options);

/// What a checkpoint stores: every option but --out, --resume and --seconds, as text that reads back exactly. Paths of
/// data are absolute.
std::map<std::string, std::string> remembered(const Options& options);

/// Options of a resumed run: the checkpoint's, except for --out, --resume and --seconds, and for those given on the command
/// line that change nothing learnt: --data (its hash decides), evaluation, checkpoints and the sample. Throws Error when one
/// that shapes the training is given with another value than the checkpoint's, and names both.
Options resumed(const Options& command_line, const std::map<std::string, std::string>& saved);

}  // namespace capstan::train_gpt
