// Lines and their redrawing; see progress.h. ASCII only, so that bytes are columns.
#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace capstan::train_gpt {
namespace {

constexpr double live_interval = 0.1, plain_interval = 10;  // seconds
constexpr int widest_bar = 40, narrowest_bar = 8;

double fraction_done(const ProgressState& state) {
  double fraction = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
  if (state.seconds_limit > 0) fraction = std::max(fraction, state.seconds / state.seconds_limit);
  return std::clamp(fraction, 0.0, 1.0);
}

}  // namespace

std::optional<double> seconds_left(const ProgressState& state) {
  std::optional<double> left;
  if (state.step > state.first_step)
    left = static_cast<double>(std::max<std::int64_t>(state.steps - state.step, 0)) * state.seconds /
           static_cast<double>(state.step - state.first_step);
  if (state.seconds_limit > 0) {
    const double until_limit = std::max(state.seconds_limit - state.seconds, 0.0);
    left = left ? std::min(*left, until_limit) : until_limit;
  }
  return left;
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e12)));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string plain_line(const ProgressState& state) {
  const auto left = seconds_left(state);
  return fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left", state.step, state.steps, state.loss,
                     state.tokens_per_s, left ? clock_time(*left) : "?");
}

std::string live_line(const ProgressState& state, int width) {
  const double fraction = fraction_done(state);
  std::string line = fmt::format(" {:3.0f}%  {}", std::floor(fraction * 100), plain_line(state));
  const int bar = std::min(width - static_cast<int>(line.size()) - 2, widest_bar);
  if (bar >= narrowest_bar) {
    const auto filled = static_cast<int>(fraction * bar);
    line = fmt::format("[{:#<{}}{:-<{}}]{}", "", filled, "", bar - filled, line);
  }
  if (static_cast<int>(line.size()) > width) line.resize(static_cast<std::size_t>(std::max(width, 0)));
  return line;
}

Progress::Progress(std::FILE* out) : out_(out), live_(isatty(fileno(out)) != 0) {}
Progress::Progress(std::FILE* out, int width) : out_(out), live_(width > 0), fixed_width_(width) {}
Progress::~Progress() { finish(); }

int Progress::width() const {
  if (fixed_width_ > 0) return fixed_width_;
  winsize size{};
  const bool known = ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void Progress::draw() {
  shown_ = true;
  drawn_at_ = state_->seconds;
  if (live_) {
    // One column stays free: some terminals wrap once the last one is filled. Spaces wipe what a longer line left.
    const std::string line = live_line(*state_, width() - 1);
    fmt::print(out_, "\r{:<{}}", line, std::min(columns_, static_cast<std::size_t>(std::max(width() - 1, 0))));
    columns_ = line.size();
  } else {
    fmt::print(out_, "{}\n", plain_line(*state_));
  }
  std::fflush(out_);
}

void Progress::update(const ProgressState& state) {
  state_ = state;
  shown_ = false;
  if (!drawn_at_ || state.seconds - *drawn_at_ >= (live_ ? live_interval : plain_interval)) draw();
}

void Progress::print(std::string_view line) {
  if (columns_ > 0) fmt::print(out_, "\r{:{}}\r", "", columns_);
  fmt::print(out_, "{}\n", line);
  columns_ = 0;
  if (live_ && state_ && drawn_at_) draw();
  std::fflush(out_);
}

void Progress::finish() {
  if (state_ && (!shown_ || (live_ && columns_ > 0))) draw();
  if (live_ && columns_ > 0) fmt::print(out_, "\n");
  std::fflush(out_);
  columns_ = 0;
  state_.reset();
}

}  // namespace capstan::train_gpt
