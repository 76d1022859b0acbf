// The program train_gpt as a user runs it: whole runs in processes of their own, killed and resumed. Not for: its parts (the
// other tests of this folder).
#include <capstan/autograd/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "support/temporary_folder.h"

namespace capstan::train_gpt {
namespace {

using test::content_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;

/// A program that runs while the test goes on.
class Process {
 public:
  Process(std::vector<std::string> arguments, const fs::path& output) {
    id_ = fork();
    if (id_ != 0) return;
    const bool opened = std::freopen(output.c_str(), "w", stdout) != nullptr;
    if (!opened || dup2(fileno(stdout), STDERR_FILENO) < 0) _exit(126);
    std::vector<char*> pointers;
    arguments.insert(arguments.begin(), CAPSTAN_TRAIN_GPT);
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    execv(CAPSTAN_TRAIN_GPT, pointers.data());
    _exit(127);
  }
  void send(int signal) const { kill(id_, signal); }
  /// The exit status, or minus the signal that ended it.
  int wait() const {
    int status = 0;
    waitpid(id_, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t id_;
};

class TrainGpt : public testing::Test {
 protected:
  static constexpr int steps = 24;

  void SetUp() override {
    std::ofstream text(data());
    for (int i = 0; i < 400; ++i) text << "line " << i * 7919 % 1000 << ": 小猫喜欢小鱼, and the cat likes fish.\n";
  }
  fs::path data() const { return folder_.path() / "text.txt"; }
  fs::path log() const { return folder_.path() / "log"; }
  fs::path out(const std::string& name) const { return folder_.path() / name; }
  std::vector<std::string> options(const std::string& name) const {
    return {"--data",
            data().string(),
            "--out",
            out(name).string(),
            "--width",
            "16",
            "--heads",
            "2",
            "--blocks",
            "2",
            "--context",
            "16",
            "--batch",
            "4",
            "--steps",
            fmt::format("{}", steps),
            "--eval-every",
            "5",
            "--checkpoint-every",
            "3",
            "--sample-bytes",
            "20"};
  }
  std::vector<std::string> resume(const std::string& name) const { return {"--resume", "--out", out(name).string()}; }
  int run(const std::vector<std::string>& arguments) const { return Process(arguments, log()).wait(); }

  /// step, losses, rate and norm of each row: all but the clock's columns.
  static std::vector<std::string> learnt(const fs::path& metrics) {
    std::istringstream lines(content_of(metrics));
    std::vector<std::string> rows;
    for (std::string line; std::getline(lines, line);) {
      std::size_t end = 0;
      for (int comma = 0; comma < 5 && end != std::string::npos; ++comma) end = line.find(',', end + (comma > 0));
      rows.push_back(line.substr(0, end));
    }
    return rows;
  }
  std::string last_line() const {
    std::string text = content_of(log());
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }
  /// Waits until the run has written its row of a step.
  void wait_for_step(const std::string& name, int step) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    while (std::chrono::steady_clock::now() < deadline) {
      for (const std::string& row : learnt(out(name) / "metrics.csv"))
        if (std::atoi(row.c_str()) >= step) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "no row of step " << step << "; the program printed\n" << content_of(log());
  }
  void expect_same_run(const std::string& a, const std::string& b) const {
    EXPECT_EQ(learnt(out(a) / "metrics.csv"), learnt(out(b) / "metrics.csv"));
    EXPECT_TRUE(content_of(out(a) / "checkpoint.safetensors") == content_of(out(b) / "checkpoint.safetensors"));
    EXPECT_GT(content_of(out(a) / "checkpoint.safetensors").size(), 1000u);
  }

  TemporaryFolder folder_;
};

TEST_F(TrainGpt, EndsWithAResultLineAndLearns) {
  ASSERT_EQ(run(options("a")), 0) << content_of(log());
  EXPECT_TRUE(last_line().starts_with("result: val_loss=")) << last_line();
  for (const char* field : {" bigram=", " unigram=", " tokens_per_s="})
    EXPECT_NE(last_line().find(field), std::string::npos) << last_line();
  const std::vector<std::string> rows = learnt(out("a") / "metrics.csv");
  ASSERT_EQ(rows.size(), steps + 2u);  // the header, and each step once, 0 among them
  const auto loss = [&](std::size_t step) {
    return std::atof(rows[step + 1].substr(rows[step + 1].find(',') + 1).c_str());
  };
  EXPECT_TRUE(rows[1].starts_with("0,,5.")) << rows[1];  // before any training: no training loss, a validation loss
  EXPECT_NEAR(loss(1), std::log(256.0), 0.1);
  EXPECT_LT(loss(steps), loss(1) - 0.3);
}

TEST_F(TrainGpt, KilledAtARandomStepAndResumedGivesTheSameLossesAndParametersBitForBit) {
  ASSERT_EQ(run(options("whole")), 0) << content_of(log());
  const int step = 4 + static_cast<int>(std::random_device{}() % (steps - 6));
  SCOPED_TRACE(fmt::format("killed after step {}", step));
  const Process process(options("killed"), log());
  wait_for_step("killed", step);
  process.send(SIGKILL);
  ASSERT_EQ(process.wait(), -SIGKILL) << content_of(log());
  ASSERT_EQ(run(resume("killed")), 0) << content_of(log());
  expect_same_run("whole", "killed");
}

TEST_F(TrainGpt, InterruptedSavesAndTellsHowToGoOn) {
  ASSERT_EQ(run(options("whole")), 0) << content_of(log());
  const Process process(options("stopped"), log());
  wait_for_step("stopped", 4);
  process.send(SIGINT);
  ASSERT_EQ(process.wait(), 130) << content_of(log());
  EXPECT_NE(content_of(log()).find("go on with: examples/run --resume"), std::string::npos) << content_of(log());
  ASSERT_EQ(run(resume("stopped")), 0) << content_of(log());
  expect_same_run("whole", "stopped");
}

TEST_F(TrainGpt, AFinishedRunThatIsResumedChangesNothing) {
  ASSERT_EQ(run(options("a")), 0) << content_of(log());
  const std::string metrics = content_of(out("a") / "metrics.csv"),
                    checkpoint = content_of(out("a") / "checkpoint.safetensors"),
                    report = content_of(out("a") / "report.html");
  ASSERT_EQ(run(resume("a")), 0) << content_of(log());
  EXPECT_TRUE(content_of(out("a") / "report.html") == report);
  EXPECT_LE(report.size(), 300'000u);
  EXPECT_NE(report.find("--steps 24"), std::string::npos);
  EXPECT_EQ(content_of(out("a") / "metrics.csv"), metrics);
  EXPECT_TRUE(content_of(out("a") / "checkpoint.safetensors") == checkpoint);
}

TEST_F(TrainGpt, OtherDataOnResumeIsRefused) {
  ASSERT_EQ(run(options("a")), 0) << content_of(log());
  std::ofstream(data(), std::ios::app) << "one line more\n";
  EXPECT_EQ(run(resume("a")), 1);
  EXPECT_TRUE(last_line().starts_with("train_gpt: ")) << last_line();
}

TEST_F(TrainGpt, NamesAndPromptsOfAnyBytesAreSavedReportedAndResumed) {
  fs::path odd = data();
  odd.replace_filename("caf\xe9 \\.txt");  // Latin-1
  fs::rename(data(), odd);
  std::vector<std::string> arguments = options("a");
  arguments[1] = odd.string();
  arguments.insert(arguments.end(), {"--prompt", "\xff line"});
  ASSERT_EQ(run(arguments), 0) << content_of(log());
  EXPECT_NE(content_of(out("a") / "report.html").find("caf\\\\xe9 "), std::string::npos) << "as a JSON string";
  const std::string checkpoint = content_of(out("a") / "checkpoint.safetensors");
  ASSERT_EQ(run(resume("a")), 0) << content_of(log());
  EXPECT_TRUE(content_of(out("a") / "checkpoint.safetensors") == checkpoint);
}

TEST_F(TrainGpt, BadInputEndsWithOneSentence) {
  EXPECT_EQ(run({"--data", out("missing").string()}), 1);
  EXPECT_TRUE(last_line().starts_with("train_gpt: ")) << last_line();
  EXPECT_NE(last_line().find("missing"), std::string::npos) << last_line();
  EXPECT_EQ(run({"--resume", out("nothing").string()}), 1);
  EXPECT_EQ(last_line(), "train_gpt: resume: there must be a checkpoint to go on from; got no file " +
                             out("nothing").string() + "; name one, or start anew without --resume");
}

}  // namespace
}  // namespace capstan::train_gpt
