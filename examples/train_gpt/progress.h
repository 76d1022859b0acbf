// What a training run shows while it runs: one live line on a terminal, plain lines now and then elsewhere.
// Not for: keeping numbers (see metrics.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::train_gpt {

struct ProgressState {
  std::int64_t step = 0;        // steps done
  std::int64_t steps = 0;       // all steps
  std::int64_t first_step = 0;  // steps that had been done when this run began
  double loss = 0;
  double tokens_per_s = 0;
  double seconds = 0;        // this run's training time
  double seconds_limit = 0;  // where it stops; 0 = nowhere
};

/// Until the steps are done at this run's pace or the time is up, whichever comes first; nothing before a first step.
std::optional<double> seconds_left(const ProgressState& state);

/// "0:07", "12:05", "1:02:05".
std::string clock_time(double seconds);

/// "step 120/1000  loss 2.3456  9876 tokens/s  1:23 left": what a log gets.
std::string plain_line(const ProgressState& state);

/// The same behind a bar and a percentage, at most `width` columns: the bar shrinks, then goes, then the end is cut off.
std::string live_line(const ProgressState& state, int width);

/// Writes to `out`. While it is live nothing else may write there but through `print`.
class Progress {
 public:
  /// Live if `out` is a terminal, as wide as the terminal is at that moment.
  explicit Progress(std::FILE* out);
  /// Live, and this wide, if `width` > 0; plain otherwise. For tests and odd terminals.
  Progress(std::FILE* out, int width);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Call it after every step: it draws at most ten times a second, or one line in ten seconds when it is not live.
  void update(const ProgressState& state);
  /// Prints a line of its own (its line feed is added) above the live line.
  void print(std::string_view line);
  /// Draws the last state once more and ends its line; harmless when called again or without any state.
  void finish();

  bool live() const { return live_; }

 private:
  void draw();
  int width() const;

  std::FILE* out_;
  bool live_;
  int fixed_width_ = 0;
  std::optional<ProgressState> state_{};
  std::optional<double> drawn_at_{};  // in the state's seconds
  bool shown_ = true;                 // the last state has been drawn
  std::size_t columns_ = 0;           // that the live line on the screen takes; 0 = none
};

}  // namespace capstan::train_gpt
