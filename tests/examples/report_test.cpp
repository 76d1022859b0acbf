#include "train_gpt/report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace capstan::train_gpt {
namespace {

Text text_of(const std::string& bytes) {
  Text text;
  append(text, "a.txt", bytes);
  return text;
}

TEST(Report, TheCommandNamesWhatIsNotDefaultAndAlwaysStepsAndSeed) {
  EXPECT_EQ(command_of({}), "examples/run --seed 1 --steps 1000");
  Options options;
  options.data = {"/tmp/it's a book.txt", "/tmp/b"};
  options.width = 64;
  options.steps = 20;
  options.warmup = 2;  // what 20 steps give by themselves
  EXPECT_EQ(command_of(options),
            "examples/run --data '/tmp/it'\\''s a book.txt' /tmp/b --seed 1 --steps 20 --width 64");
}

TEST(Report, TheCommandReadsBackAsTheSameOptions) {
  Options options;
  options.lr = 1e-3;
  options.warmup = 7;
  const std::string command = command_of(options);
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < command.size();) {
    const std::size_t end = std::min(command.find(' ', begin), command.size());
    words.push_back(command.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  EXPECT_EQ(remembered(parse_options(static_cast<int>(arguments.size()), arguments.data())), remembered(options));
}

TEST(Report, ShellWordsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(shell_word("/tmp/a-b_1.txt"), "/tmp/a-b_1.txt");
  EXPECT_EQ(shell_word("/tmp/a b"), "'/tmp/a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("caf\xe9's \\"), "$'caf\\xe9\\'s \\x5c'");
}

TEST(Report, TheValidationLineLiesInOneBlockAndIsOneLine) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += "a line of thirty bytes or so " + std::to_string(i) + "\n";
  const Corpus corpus(text_of(bytes), 64);
  const Span line = validation_line(corpus, 64);
  const std::string_view text =
      std::string_view(corpus.text().bytes)
          .substr(static_cast<std::size_t>(line.begin), static_cast<std::size_t>(line.size()));
  EXPECT_TRUE(text.starts_with("a line of")) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  const auto inside = [&](const Span& block) { return block.begin <= line.begin && line.end <= block.end; };
  EXPECT_EQ(std::count_if(corpus.blocks().begin(), corpus.blocks().end(), inside), 1);
}

TEST(Report, WithoutAWholeLineItIsTheStartOfTheFirstBlock) {
  const Corpus corpus(text_of(std::string(2000, 'x')), 64);
  EXPECT_EQ(validation_line(corpus, 16), (Span{corpus.blocks()[0].begin, corpus.blocks()[0].begin + 16}));
}

TEST(Report, KeepsItsLimitHoweverManyHeadsAndSteps) {
  std::string bytes;
  for (int i = 0; i < 400; ++i) bytes += "words and more words: 小猫喜欢小鱼 " + std::to_string(i * 7919) + "\n";
  Options options;
  options.width = 64;
  options.heads = 32;
  options.blocks = 6;
  const Corpus corpus(text_of(bytes), options.context);
  const Trainer trainer(options, corpus);
  std::vector<Metrics> rows;
  for (int i = 1; i <= 5000; ++i)
    rows.push_back({i, 1.0 / i, 1.0 / i, 3e-4 / i, 0.123456789 * i, 12345.6 + i, 0.5 * i});
  const Entropies baseline = entropies(corpus.text());
  const std::string page = report_page({.options = options,
                                        .corpus = corpus,
                                        .baseline = baseline,
                                        .trainer = trainer,
                                        .metrics = rows,
                                        .val_loss = 2,
                                        .sample = "</script>\xff"});
  EXPECT_LE(page.size(), 300'000u);
  EXPECT_GT(page.size(), 100'000u);                                   // the weights of 192 heads are there
  EXPECT_NE(page.find("[5000,0.0002]"), std::string::npos);           // the last point of the curve
  EXPECT_NE(page.find("\\u003c/script>\\\\xff"), std::string::npos);  // the sample, made safe
}

}  // namespace
}  // namespace capstan::train_gpt
