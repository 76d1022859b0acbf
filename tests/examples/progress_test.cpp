#include "train_gpt/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace capstan::train_gpt {
namespace {

/// A stream into memory.
class Captured {
 public:
  Captured() : stream_(open_memstream(&content_, &size_)) {}
  ~Captured() {
    std::fclose(stream_);
    std::free(content_);
  }
  std::FILE* stream() { return stream_; }
  std::string content() {
    std::fflush(stream_);
    return {content_, size_};
  }

 private:
  char* content_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

ProgressState state(std::int64_t step, double seconds) {
  return {.step = step, .steps = 100, .loss = 2.25, .tokens_per_s = 1234.4, .seconds = seconds};
}

TEST(Progress, TimeLeftByStepsOrSeconds) {
  EXPECT_FALSE(seconds_left(state(0, 0)));
  EXPECT_EQ(seconds_left(state(25, 10)), 30);
  ProgressState resumed = state(75, 10);
  resumed.first_step = 50;
  EXPECT_EQ(seconds_left(resumed), 10);
  ProgressState limited = state(25, 10);
  limited.seconds_limit = 12;
  EXPECT_EQ(seconds_left(limited), 2);
  limited.seconds_limit = 1000;
  EXPECT_EQ(seconds_left(limited), 30);
  limited = state(0, 3);
  limited.seconds_limit = 2;
  EXPECT_EQ(seconds_left(limited), 0);
}

TEST(Progress, ClockTimes) {
  EXPECT_EQ(clock_time(-1), "0:00");
  EXPECT_EQ(clock_time(7.4), "0:07");
  EXPECT_EQ(clock_time(59.6), "1:00");
  EXPECT_EQ(clock_time(725), "12:05");
  EXPECT_EQ(clock_time(3725), "1:02:05");
}

TEST(Progress, Lines) {
  EXPECT_EQ(plain_line(state(25, 10)), "step 25/100  loss 2.2500  1234 tokens/s  0:30 left");
  EXPECT_EQ(plain_line(state(0, 0)), "step 0/100  loss 2.2500  1234 tokens/s  ? left");
  EXPECT_EQ(live_line(state(25, 10), 70), "[##---------]  25%  step 25/100  loss 2.2500  1234 tokens/s  0:30 left");
  EXPECT_EQ(live_line(state(25, 10), 500),
            "[##########------------------------------]  25%  step 25/100  loss 2.2500  1234 tokens/s  0:30 left");
  EXPECT_EQ(live_line(state(25, 10), 60), "  25%  step 25/100  loss 2.2500  1234 tokens/s  0:30 left");
  EXPECT_EQ(live_line(state(25, 10), 20), "  25%  step 25/100  ");
  EXPECT_EQ(live_line(state(25, 10), 0), "");
  for (int width = 0; width < 120; ++width)
    EXPECT_LE(live_line(state(100, 10), width).size(), static_cast<unsigned>(width));
}

TEST(Progress, PlainLinesAtIntervals) {
  Captured out;
  {
    Progress progress(out.stream(), 0);
    for (int step = 1; step <= 25; ++step) progress.update(state(step, step));
    progress.print("validation");
  }
  EXPECT_EQ(out.content(),
            "step 1/100  loss 2.2500  1234 tokens/s  1:39 left\n"
            "step 11/100  loss 2.2500  1234 tokens/s  1:29 left\n"
            "step 21/100  loss 2.2500  1234 tokens/s  1:19 left\n"
            "validation\n"
            "step 25/100  loss 2.2500  1234 tokens/s  1:15 left\n");
}

TEST(Progress, APipeIsNotLive) {
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(Progress(file).live());
  std::fclose(file);
}

TEST(Progress, LiveLineIsRedrawnAndWiped) {
  Captured out;
  Progress progress(out.stream(), 20);
  progress.update(state(25, 10));
  EXPECT_EQ(out.content(), "\r  25%  step 25/100 ");
  progress.update(state(26, 10.05));  // too soon
  EXPECT_EQ(out.content(), "\r  25%  step 25/100 ");
  progress.update(state(27, 10.2));
  EXPECT_EQ(out.content(), "\r  25%  step 25/100 \r  27%  step 27/100 ");
  progress.print("note");
  EXPECT_THAT(out.content(), testing::EndsWith("\r                   \rnote\n\r  27%  step 27/100 "));
  progress.update(state(28, 10.21));
  progress.finish();
  EXPECT_THAT(out.content(), testing::EndsWith("\r  28%  step 28/100 \n"));
  const std::string all = out.content();
  progress.finish();
  EXPECT_EQ(out.content(), all);
}

TEST(Progress, AShorterLineWipesTheLonger) {
  Captured out;
  Progress progress(out.stream(), 200);
  progress.update(state(99, 990));
  ProgressState last = state(100, 1000);
  last.tokens_per_s = 1;
  progress.update(last);
  const std::string all = out.content();
  const std::size_t second = all.rfind('\r');
  EXPECT_EQ(all.size() - second, second);
}

TEST(Progress, NothingShownNothingFinished) {
  Captured out;
  Progress(out.stream(), 80).finish();
  EXPECT_EQ(out.content(), "");
}

}  // namespace
}  // namespace capstan::train_gpt
