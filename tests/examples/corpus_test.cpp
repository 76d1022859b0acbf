#include "train_gpt/corpus.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "support/expect.h"

namespace capstan::train_gpt {
namespace {

using test::error_of;

Text text_of_sizes(const std::vector<std::int64_t>& sizes) {
  Text text;
  std::string content;
  for (const std::int64_t size : sizes) {
    content.clear();
    for (std::int64_t i = 0; i < size; ++i) content += static_cast<char>('!' + (i * 7 + i / 13 + size) % 90);
    append(text, std::to_string(text.files.size()), content);
  }
  return text;
}

bool overlap(const Span& a, const Span& b) { return a.begin < b.end && b.begin < a.end; }

/// Everything the split promises, for any text and context.
void expect_promises(const Corpus& corpus) {
  const std::int64_t size = corpus.text().size(), window = corpus.context() + 1;
  std::vector<int> times_held_out(static_cast<std::size_t>(size), 0);
  for (const Span& block : corpus.blocks()) {
    RC_ASSERT(block.size() == window);
    RC_ASSERT(block.begin >= 0);
    RC_ASSERT(block.end <= size);
    for (std::int64_t i = block.begin; i < block.end; ++i) ++times_held_out[static_cast<std::size_t>(i)];
  }
  RC_ASSERT(*std::max_element(times_held_out.begin(), times_held_out.end()) == 1);
  RC_ASSERT(corpus.validation_bytes() * 20 >= size);

  std::vector<std::int64_t> held_out_before{0};  // of the first i bytes
  for (const int times : times_held_out) held_out_before.push_back(held_out_before.back() + times);
  const auto held_out = [&](std::int64_t begin, std::int64_t end) {
    return held_out_before[static_cast<std::size_t>(end)] - held_out_before[static_cast<std::size_t>(begin)];
  };
  std::int64_t windows = 0;
  for (const Span& segment : corpus.segments()) {
    RC_ASSERT(segment.size() >= window);
    RC_ASSERT(held_out(segment.begin, segment.end) == 0);
    windows += segment.size() - corpus.context();
  }
  RC_ASSERT(windows == corpus.window_count());
  RC_ASSERT(windows > 0);
  bool rising = true, inside = true, apart = true;
  for (std::int64_t i = 0, last = -1; i < windows; ++i) {
    const std::int64_t begin = corpus.window_begin(i);
    rising = rising && begin > last;
    inside = inside && begin + window <= size;
    apart = apart && held_out(begin, begin + window) == 0;
    last = begin;
  }
  RC_ASSERT(rising);
  RC_ASSERT(inside);
  RC_ASSERT(apart);
  for (const TextFile& file : corpus.text().files) {
    if (file.size < 8 * window) continue;
    const auto in_file = [&](const Span& block) {
      return block.begin >= file.begin && block.end <= file.begin + file.size;
    };
    RC_ASSERT(std::any_of(corpus.blocks().begin(), corpus.blocks().end(), in_file));
  }
}

RC_GTEST_PROP(Corpus, KeepsItsPromises, ()) {
  const auto context = *rc::gen::inRange<std::int64_t>(1, 40);
  auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 1500)));
  sizes.front() = std::max(sizes.front(), Corpus::needed(context));
  expect_promises(Corpus(text_of_sizes(sizes), context));
}

RC_GTEST_PROP(Corpus, KeepsItsPromisesForSmallFiles, ()) {
  const auto context = *rc::gen::inRange<std::int64_t>(1, 70);
  auto sizes = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 30)));
  sizes.resize(sizes.size() + static_cast<std::size_t>(Corpus::needed(context)), 1);
  expect_promises(Corpus(text_of_sizes(sizes), context));
}

TEST(Corpus, NeedsOneWindowAndOneBlock) {
  const Corpus least(text_of_sizes({18}), 8);
  EXPECT_EQ(least.block_count(), 1);
  EXPECT_EQ(least.window_count(), 1);
  EXPECT_FALSE(overlap(least.blocks()[0], least.segments()[0]));
  EXPECT_EQ(error_of([] { Corpus(text_of_sizes({17}), 8); }),
            "data: a context of 8 needs at least 18 bytes of text; got 17; give more text or a smaller --context");
  EXPECT_EQ(error_of([] { Corpus(text_of_sizes({17}), 0); }), "data: the context must be at least 1; got 0");
}

TEST(Corpus, SmallFilesAreJoined) {
  const Corpus corpus(text_of_sizes(std::vector<std::int64_t>(100, 5)), 8);
  expect_promises(corpus);
  EXPECT_GT(corpus.training_bytes(), 400);
  EXPECT_EQ(corpus.training_bytes() + corpus.validation_bytes(), 500);
}

TEST(Corpus, SplitsItsOwnProject) {
  const Corpus corpus(read_project(CAPSTAN_SOURCE_DIR), 128);
  expect_promises(corpus);
  const double share = static_cast<double>(corpus.validation_bytes()) / static_cast<double>(corpus.text().size());
  EXPECT_GE(share, 0.05);
  EXPECT_LT(share, 0.10);
  const double used = static_cast<double>(corpus.validation_bytes() + corpus.training_bytes());
  EXPECT_GT(used, 0.99 * static_cast<double>(corpus.text().size()));
}

TEST(Corpus, TargetsAreTheNextBytes) {
  Text text;
  const std::string chinese = "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。寒来暑往，秋收冬藏。";
  append(text, "千字文", chinese);
  const Corpus corpus(text, 5);
  const Batch batch = corpus.training_batch(Key{1, 0}, 3, 4);
  ASSERT_EQ(batch.count, 4);
  ASSERT_EQ(batch.length, 5);
  ASSERT_EQ(batch.ids.size(), 20u);
  ASSERT_EQ(batch.targets.size(), 20u);
  for (std::size_t row = 0; row < 4; ++row) {
    std::string window;
    for (std::size_t t = 0; t < 5; ++t) {
      const std::int32_t id = batch.ids[row * 5 + t];
      EXPECT_TRUE(id >= 0 && id < 256);
      window += static_cast<char>(id);
      if (t > 0) { EXPECT_EQ(id, batch.targets[row * 5 + t - 1]); }
    }
    window += static_cast<char>(batch.targets[row * 5 + 4]);
    EXPECT_NE(chinese.find(window), std::string::npos);
  }
}

TEST(Corpus, TrainingBatchesDependOnKeyAndStepOnly) {
  const Corpus corpus(text_of_sizes({5000, 300}), 16), again(text_of_sizes({5000, 300}), 16);
  const Key key{42, 7};
  const Batch batch = corpus.training_batch(key, 10, 8);
  (void)again.training_batch(key, 1, 3);
  EXPECT_EQ(again.training_batch(key, 10, 8).ids, batch.ids);
  EXPECT_EQ(again.training_batch(key, 10, 8).targets, batch.targets);
  EXPECT_NE(corpus.training_batch(key, 11, 8).ids, batch.ids);
  EXPECT_NE(corpus.training_batch(Key{43, 7}, 10, 8).ids, batch.ids);
  EXPECT_EQ(corpus.blocks(), again.blocks());
}

TEST(Corpus, EveryWindowIsDrawn) {
  const Corpus corpus(text_of_sizes({40}), 4);
  std::set<std::vector<std::int32_t>> drawn, all;
  for (std::int64_t i = 0; i < corpus.window_count(); ++i) {
    const auto begin = static_cast<std::size_t>(corpus.window_begin(i));
    all.insert({corpus.text().bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                corpus.text().bytes.begin() + static_cast<std::ptrdiff_t>(begin) + 4});
  }
  for (std::int64_t step = 0; step < 200; ++step) drawn.insert(corpus.training_batch(Key{1, 1}, step, 1).ids);
  EXPECT_EQ(drawn, all);
}

TEST(Corpus, ValidationCoversEveryBlockOnce) {
  const Corpus corpus(text_of_sizes({9000, 700}), 16);
  const std::int64_t total = corpus.block_count();
  ASSERT_GT(total, 10);
  std::vector<std::int32_t> one_by_one, batched, probed;
  for (std::int64_t first = 0; first < total; first += 4) {
    const Batch batch = corpus.validation_batch(first, 4);
    EXPECT_EQ(batch.count, std::min<std::int64_t>(4, total - first));
    batched.insert(batched.end(), batch.ids.begin(), batch.ids.end());
  }
  for (const Span& block : corpus.blocks())
    one_by_one.insert(one_by_one.end(), corpus.text().bytes.begin() + block.begin,
                      corpus.text().bytes.begin() + block.end - 1);
  EXPECT_EQ(batched, one_by_one);
  for (const Batch& batch : corpus.validation_batches(4, total + 100))
    probed.insert(probed.end(), batch.ids.begin(), batch.ids.end());
  EXPECT_EQ(probed, one_by_one);
  EXPECT_EQ(
      error_of([&] { (void)corpus.validation_batch(total, 1); }),
      "validation_batch: the first block must be in [0, " + std::to_string(total) + "); got " + std::to_string(total));
}

TEST(Corpus, AProbeIsSpreadEvenly) {
  const Corpus corpus(text_of_sizes({40000}), 16);
  const auto batches = corpus.validation_batches(4, 10);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0].count, 4);
  EXPECT_EQ(batches[2].count, 2);
  const Batch fifth = corpus.validation_batch(4 * corpus.block_count() / 10, 1);
  EXPECT_TRUE(std::equal(fifth.ids.begin(), fifth.ids.end(), batches[1].ids.begin()));
}

}  // namespace
}  // namespace capstan::train_gpt
