#include "train_gpt/metrics.h"

#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/temporary_folder.h"

namespace capstan::train_gpt {
namespace {

using test::content_of;
using test::error_of;
using test::TemporaryFolder;

const std::string header = "step,train_loss,val_loss,learning_rate,gradient_norm,tokens_per_s,seconds\n";

Metrics row(std::int64_t step) { return {.step = step, .train_loss = 2.5, .seconds = static_cast<double>(step) / 4}; }

TEST(Metrics, RowsLeaveTheUnmeasuredEmpty) {
  EXPECT_EQ(metrics_row({.step = 7}), "7,,,,,,");
  EXPECT_EQ(metrics_row({.step = 10,
                         .train_loss = 0.1 + 0.2,
                         .val_loss = 3,
                         .learning_rate = 3e-4,
                         .gradient_norm = 0.5,
                         .tokens_per_s = 12345.67,
                         .seconds = 1.23456}),
            "10,0.30000000000000004,3,0.0003,0.5,12345.7,1.235");
}

TEST(Metrics, RowsReadBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  MetricsFile file = MetricsFile::create(folder / "metrics.csv");
  EXPECT_TRUE(read_metrics(folder / "metrics.csv").empty());
  file.append({.step = 7});
  file.append({.step = 8, .train_loss = 0.1 + 0.2, .learning_rate = 3e-4, .tokens_per_s = 12.5, .seconds = 1.25});
  const std::vector<Metrics> rows = read_metrics(folder / "metrics.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(metrics_row(rows[0]), "7,,,,,,");
  EXPECT_EQ(rows[1].train_loss, 0.1 + 0.2);
  EXPECT_EQ(rows[1].val_loss, std::nullopt);
  EXPECT_EQ(rows[1].learning_rate, 3e-4);
  EXPECT_EQ(rows[1].seconds, 1.25);
  folder.write("other.csv", "a,b\n1,2\n");
  EXPECT_EQ(error_of([&] { read_metrics(folder / "other.csv"); }),
            "metrics: line 1 of " + (folder / "other.csv").string() +
                " must be \"step,train_loss,val_loss,learning_rate,gradient_norm,tokens_per_s,seconds\"; got \"a,b\"");
  folder.write("short.csv", header + "1,2\n");
  EXPECT_EQ(
      error_of([&] { read_metrics(folder / "short.csv"); }),
      "metrics: line 2 of " + (folder / "short.csv").string() + " must hold a step and 6 more fields; got \"1,2\"");
}

TEST(Metrics, EveryRowIsOnDiskAtOnce) {
  const TemporaryFolder folder;
  folder.write("metrics.csv", "an older run");
  MetricsFile file = MetricsFile::create(folder / "metrics.csv");
  EXPECT_EQ(content_of(folder / "metrics.csv"), header);
  file.append(row(1));
  EXPECT_EQ(content_of(folder / "metrics.csv"), header + "1,2.5,,,,,0.250\n");
  EXPECT_EQ(file.seconds(), 0);
}

TEST(Metrics, ResumeCutsBack) {
  const TemporaryFolder folder;
  {
    MetricsFile file = MetricsFile::create(folder / "metrics.csv");
    for (std::int64_t step = 1; step <= 12; ++step) file.append(row(step));
  }
  MetricsFile file = MetricsFile::resume(folder / "metrics.csv", 2);
  EXPECT_EQ(content_of(folder / "metrics.csv"), header + "1,2.5,,,,,0.250\n2,2.5,,,,,0.500\n");
  EXPECT_EQ(file.seconds(), 0.5);
  file.append({.step = 3});
  EXPECT_EQ(content_of(folder / "metrics.csv"), header + "1,2.5,,,,,0.250\n2,2.5,,,,,0.500\n3,,,,,,\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "metrics.csv.new"));
}

TEST(Metrics, ResumeDropsATornLastLine) {
  const TemporaryFolder folder;
  const auto path = folder.write("metrics.csv", header + "1,2.5,,,,,0.250\n2,2.");
  MetricsFile::resume(path, 5);
  EXPECT_EQ(content_of(path), header + "1,2.5,,,,,0.250\n");
  folder.write("metrics.csv", "step,train");
  MetricsFile::resume(path, 5);
  EXPECT_EQ(content_of(path), header);
}

TEST(Metrics, ResumeWithoutAFileStartsOne) {
  const TemporaryFolder folder;
  MetricsFile::resume(folder / "metrics.csv", 5);
  EXPECT_EQ(content_of(folder / "metrics.csv"), header);
  folder.write("empty.csv", "");
  MetricsFile::resume(folder / "empty.csv", 5);
  EXPECT_EQ(content_of(folder / "empty.csv"), header);
}

TEST(Metrics, ResumeRefusesForeignFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.write("metrics.csv", "a,b\n1,2\n").string();
  EXPECT_EQ(
      error_of([&] { MetricsFile::resume(path, 5); }),
      "metrics: line 1 of " + path +
          " must be \"step,train_loss,val_loss,learning_rate,gradient_norm,tokens_per_s,seconds\"; got \"a,b\"; move "
          "that file away");
  folder.write("metrics.csv", header + "1,2.5,,,,,0.250\nx,2.5,,,,,\n");
  EXPECT_EQ(
      error_of([&] { MetricsFile::resume(path, 5); }),
      "metrics: line 3 of " + path + " must hold a step and 6 more fields; got \"x,2.5,,,,,\"; move that file away");
  EXPECT_EQ(content_of(path), header + "1,2.5,,,,,0.250\nx,2.5,,,,,\n");
}

TEST(Metrics, NamesWhatCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string path = (folder / "no_folder/metrics.csv").string();
  EXPECT_EQ(error_of([&] { MetricsFile::create(path); }),
            "metrics: " + path + " must be writable; got \"No such file or directory\"");
  EXPECT_EQ(error_of([] { MetricsFile::create("/dev/full"); }),
            "metrics: /dev/full must be writable; got \"No space left on device\"");
}

}  // namespace
}  // namespace capstan::train_gpt
