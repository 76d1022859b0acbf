#include "train_gpt/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/temporary_folder.h"

namespace capstan::train_gpt {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train_gpt");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string error_of_parsing(const std::vector<const char*>& arguments) {
  return error_of([&] { parse(arguments); });
}

TEST(Options, Defaults) {
  const Options options = parse({});
  const Options defaults;
  EXPECT_EQ(remembered(options), remembered(defaults));
  EXPECT_EQ(options.seconds, defaults.seconds);
  EXPECT_EQ(options.out, defaults.out);
  EXPECT_TRUE(options.given.empty());
  EXPECT_FALSE(options.resume);
}

TEST(Options, ReadsAll) {
  const Options options = parse({"--data",
                                 "a.txt",
                                 "b.txt",
                                 "--width",
                                 "64",
                                 "--heads",
                                 "2",
                                 "--blocks",
                                 "3",
                                 "--context",
                                 "32",
                                 "--batch",
                                 "8",
                                 "--steps",
                                 "50",
                                 "--seconds",
                                 "1.5",
                                 "--lr",
                                 "1e-3",
                                 "--min-lr",
                                 "0",
                                 "--warmup",
                                 "5",
                                 "--weight-decay",
                                 "0",
                                 "--clip",
                                 "0.5",
                                 "--seed",
                                 "18446744073709551615",
                                 "--eval-every",
                                 "10",
                                 "--eval-windows",
                                 "7",
                                 "--checkpoint-every",
                                 "0",
                                 "--prompt",
                                 "-- 秋水",
                                 "--sample-bytes",
                                 "0",
                                 "--temperature",
                                 "0",
                                 "--out=o"});
  EXPECT_THAT(options.data, ElementsAre("a.txt", "b.txt"));
  EXPECT_EQ(options.width, 64);
  EXPECT_EQ(options.heads, 2);
  EXPECT_EQ(options.blocks, 3);
  EXPECT_EQ(options.context, 32);
  EXPECT_EQ(options.batch, 8);
  EXPECT_EQ(options.steps, 50);
  EXPECT_EQ(options.seconds, 1.5);
  EXPECT_EQ(options.lr, 1e-3);
  EXPECT_EQ(options.min_lr, 0);
  EXPECT_EQ(options.warmup, 5);
  EXPECT_EQ(options.weight_decay, 0);
  EXPECT_EQ(options.clip, 0.5);
  EXPECT_EQ(options.seed, 18446744073709551615u);
  EXPECT_EQ(options.eval_every, 10);
  EXPECT_EQ(options.eval_windows, 7);
  EXPECT_EQ(options.checkpoint_every, 0);
  EXPECT_EQ(options.prompt, "-- 秋水");
  EXPECT_EQ(options.sample_bytes, 0);
  EXPECT_EQ(options.temperature, 0);
  EXPECT_EQ(options.metrics_file(), "o/metrics.csv");
  EXPECT_EQ(options.checkpoint_file(), "o/checkpoint.safetensors");
  EXPECT_EQ(options.schedule()(5), 1e-3);
  EXPECT_TRUE(options.is_given("--width"));
  EXPECT_FALSE(options.is_given("--resume"));
}

TEST(Options, DefaultsThatFollow) {
  EXPECT_EQ(parse({"--lr", "0.02"}).min_lr, 0.002);
  EXPECT_EQ(parse({"--steps", "40"}).warmup, 4);
  EXPECT_EQ(parse({"--steps", "4"}).warmup, 0);
  EXPECT_EQ(parse({"--steps", "40000"}).warmup, 100);
  EXPECT_EQ(parse({"--steps", "40"}).seconds, 0);
  EXPECT_EQ(parse({"--steps", "40", "--seconds", "3"}).seconds, 3);
  EXPECT_EQ(parse({"--resume"}).seconds, 0);
}

TEST(Options, Resume) {
  EXPECT_EQ(parse({"--resume", "--out", "o"}).resume_file(), "o/checkpoint.safetensors");
  const Options file = parse({"--resume", "some/where/x.safetensors"});
  EXPECT_TRUE(file.resume);
  EXPECT_EQ(file.resume_file(), "some/where/x.safetensors");
  EXPECT_EQ(file.out, "some/where");
  EXPECT_EQ(parse({"--resume", "x.safetensors"}).out, ".");
  EXPECT_EQ(parse({"--resume", "some/x", "--out", "o"}).out, "o");
  const TemporaryFolder folder;
  const Options from_folder = parse({"--resume", folder.path().c_str()});
  EXPECT_EQ(from_folder.resume_file(), folder / "checkpoint.safetensors");
  EXPECT_EQ(from_folder.out, folder.path());
}

TEST(Options, HelpReadsWell) {
  const Options options = parse({"--steps", "7", "--help"});
  for (const char* group : {"Files:", "Model:", "Training:", "Watching:", "Sample:"})
    EXPECT_THAT(options.help, HasSubstr(std::string("\n") + group + "\n"));
  EXPECT_THAT(options.help,
              HasSubstr("  --width N (128)                 numbers per position, a multiple of --heads\n"));
  EXPECT_THAT(options.help, HasSubstr("FILE ... (capstan's own sources)"));
  EXPECT_THAT(options.help, HasSubstr("OMP_NUM_THREADS"));
}

TEST(Options, ErrorsToTheLetter) {
  EXPECT_EQ(error_of_parsing({"--width", "30", "--heads", "4"}),
            "--width: must be a multiple of --heads; got 30 and 4 heads");
  EXPECT_EQ(error_of_parsing({"--width", "0"}), "--width: must be a whole number of at least 1; got \"0\"");
  EXPECT_EQ(error_of_parsing({"--steps", "1e3"}), "--steps: must be a whole number of at least 1; got \"1e3\"");
  EXPECT_EQ(error_of_parsing({"--steps", "2000000000"}), "--steps: must be at most 1000000000; got 2000000000");
  EXPECT_EQ(error_of_parsing({"--batch", "many"}), "--batch: must be a whole number of at least 1; got \"many\"");
  EXPECT_EQ(error_of_parsing({"--seed", "-1"}), "--seed: must be a whole number of at least 0; got \"-1\"");
  EXPECT_EQ(error_of_parsing({"--lr", "0"}), "--lr: must be a number above 0; got \"0\"");
  EXPECT_EQ(error_of_parsing({"--lr", "nan"}), "--lr: must be a number above 0; got \"nan\"");
  EXPECT_EQ(error_of_parsing({"--seconds", "0"}), "--seconds: must be a number above 0; got \"0\"");
  EXPECT_EQ(error_of_parsing({"--temperature", "inf"}), "--temperature: must be a number of at least 0; got \"inf\"");
  EXPECT_EQ(error_of_parsing({"--lr", "0.1", "--min-lr", "0.2"}), "--min-lr: must be at most --lr; got 0.2 and 0.1");
  EXPECT_EQ(error_of_parsing({"--steps", "5", "--warmup", "6"}),
            "--warmup: must be at most --steps; got 6 and 5 steps");
  EXPECT_EQ(error_of_parsing({"--out", ""}), "--out: must be the name of a folder; got \"\"");
  EXPECT_EQ(error_of_parsing({"--widht", "64"}), "options: \"--widht\" is not one of them; see --help");
  EXPECT_EQ(error_of_parsing({"poem.txt"}), "options: \"poem.txt\" is not one of them; see --help");
  EXPECT_THAT(error_of_parsing({"--width"}), HasSubstr("options: --width: "));
  EXPECT_THAT(error_of_parsing({"--data"}), HasSubstr("options: --data: "));
  EXPECT_THAT(error_of_parsing({"--width", "8", "--width", "16"}), HasSubstr("options: --width: "));
}

TEST(Options, WhatACheckpointRemembersReadsBackExactly) {
  const Options options =
      parse({"--lr", "0.0012345678901234567", "--data", "/a/x.txt", "/b c/../d.txt", "--prompt", "两 行\n"});
  const Options again = resumed(parse({"--resume", "--out", "elsewhere"}), remembered(options));
  EXPECT_EQ(again.lr, options.lr);
  EXPECT_EQ(again.min_lr, options.min_lr);
  EXPECT_EQ(again.prompt, options.prompt);
  EXPECT_THAT(again.data, ElementsAre("/a/x.txt", "/d.txt"));
  EXPECT_EQ(remembered(again), remembered(options));
  EXPECT_EQ(again.out, "elsewhere");
  EXPECT_EQ(again.seconds, 0);
  EXPECT_TRUE(again.resume);
  EXPECT_TRUE(resumed(parse({"--resume"}), remembered(parse({}))).data.empty());
}

TEST(Options, RelativeDataIsRememberedFromTheRoot) {
  const auto saved = remembered(parse({"--data", "a.txt"}));
  EXPECT_EQ(saved.at("--data"), (std::filesystem::current_path() / "a.txt").string() + "\n");
  Options odd;
  odd.data = {"a\nb"};
  EXPECT_EQ(error_of([&] { remembered(odd); }), "--data: names must not contain line feeds; got \"a\nb\"");
}

TEST(Options, ResumeRefusesContradictions) {
  const auto saved = remembered(parse({"--width", "64", "--heads", "2", "--lr", "0.001", "--eval-every", "5"}));
  EXPECT_EQ(error_of([&] {
              resumed(parse({"--resume", "--width", "96"}), saved);
            }),
            "resume: --width must be the checkpoint's 64; got 96; leave it out, or start anew without --resume");
  EXPECT_EQ(error_of([&] {
              resumed(parse({"--resume", "--steps", "7"}), saved);
            }),
            "resume: --steps must be the checkpoint's 1000; got 7; leave it out, or start anew without --resume");
  const Options same =
      resumed(parse({"--resume", "--width", "64", "--lr", "1e-3", "--eval-every", "9", "--data", "moved"}), saved);
  EXPECT_EQ(same.heads, 2);
  EXPECT_EQ(same.eval_every, 9);
  EXPECT_THAT(same.data, ElementsAre("moved"));
  EXPECT_EQ(resumed(parse({"--resume"}), saved).eval_every, 5);
  auto incomplete = saved;
  incomplete.erase("--clip");
  EXPECT_EQ(error_of([&] { resumed(parse({"--resume"}), incomplete); }),
            "resume: the checkpoint must hold the option --clip; it does not; is it one of train_gpt?");
}

}  // namespace
}  // namespace capstan::train_gpt
