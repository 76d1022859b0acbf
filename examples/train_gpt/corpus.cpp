// The split and the windows; see corpus.h.
#include "corpus.h"

#include <capstan/autograd/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace capstan::train_gpt {
namespace {

constexpr std::int64_t blocks_in_run = 8;        // a file of this many blocks is a run of its own
constexpr std::int64_t bytes_per_held_out = 20;  // one byte in twenty: 5 %

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Where in [0, free] the k-th block begins: multiples of the golden ratio, which never fall into step with anything.
/// It leaves nothing or at least `window` bytes on either side, for a shorter rest could hold no window.
std::int64_t offset_in_cell(std::int64_t k, std::int64_t free, std::int64_t window) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;  // 2⁶⁴ / φ
  const std::uint64_t fraction = (static_cast<std::uint64_t>(k + 1) * golden) >> 32;
  const auto offset = static_cast<std::int64_t>((fraction * static_cast<std::uint64_t>(free + 1)) >> 32);
  if (offset < window) return 0;
  return offset > free - window ? free : offset;
}

}  // namespace

Corpus::Corpus(Text text, std::int64_t context) : text_(std::move(text)), context_(context) {
  if (context < 1) fail("data: the context must be at least 1; got {}", context);
  if (text_.size() < needed(context))
    fail("data: a context of {} needs at least {} bytes of text; got {}; give more text or a smaller --context",
         context, needed(context), text_.size());
  windows_before_.push_back(0);
  split();
}

void Corpus::split() {
  const std::int64_t long_enough = blocks_in_run * (context_ + 1);
  struct Run {
    Span whole, core;  // blocks lie in the core; the rest of the whole is training text
  };
  std::vector<Run> runs;
  std::int64_t begin = 0;  // of what no run holds yet
  for (const TextFile& file : text_.files) {
    const std::int64_t end = file.begin + file.size;
    if (file.size >= long_enough) {
      runs.push_back({{begin, end}, {file.begin, end}});
    } else if (end - begin >= long_enough) {
      runs.push_back({{begin, end}, {begin, end}});
    } else {
      continue;
    }
    begin = end;
  }
  if (runs.empty()) runs.push_back({{0, text_.size()}, {0, text_.size()}});
  runs.back().whole.end = text_.size();
  for (const Run& run : runs) split_run(run.whole, run.core);
}

void Corpus::split_run(Span run, Span core) {
  const std::int64_t window = context_ + 1;
  const std::int64_t count = divide_up(run.size(), bytes_per_held_out * window);
  std::int64_t trained_to = run.begin;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t cell = core.begin + core.size() * i / count;
    const std::int64_t free = core.begin + core.size() * (i + 1) / count - cell - window;
    const std::int64_t begin = cell + offset_in_cell(block_count(), free, window);
    add_segment({trained_to, begin});
    blocks_.push_back({begin, begin + window});
    trained_to = begin + window;
  }
  add_segment({trained_to, run.end});
}

void Corpus::add_segment(Span segment) {
  if (segment.size() <= context_) return;
  segments_.push_back(segment);
  windows_before_.push_back(windows_before_.back() + segment.size() - context_);
}

std::int64_t Corpus::training_bytes() const {
  return std::accumulate(segments_.begin(), segments_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Span& segment) { return sum + segment.size(); });
}

std::int64_t Corpus::window_begin(std::int64_t i) const {
  const auto after = std::upper_bound(windows_before_.begin(), windows_before_.end(), i);
  const std::ptrdiff_t segment = after - windows_before_.begin() - 1;
  return segments_[static_cast<std::size_t>(segment)].begin + i - windows_before_[static_cast<std::size_t>(segment)];
}

void Corpus::append_window(Batch& batch, std::int64_t begin) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text_.bytes.data()) + begin;
  batch.ids.insert(batch.ids.end(), bytes, bytes + context_);
  batch.targets.insert(batch.targets.end(), bytes + 1, bytes + context_ + 1);
  ++batch.count;
}

Batch Corpus::training_batch(Key key, std::int64_t step, std::int64_t count) const {
  const Key step_key = key.derive(static_cast<std::uint64_t>(step));
  Batch batch{.length = context_};
  for (std::int64_t i = 0; i < count; ++i)
    append_window(
        batch,
        window_begin(static_cast<std::int64_t>(uniform_int(step_key, i, static_cast<std::uint64_t>(window_count())))));
  return batch;
}

Batch Corpus::validation_batch(std::int64_t first, std::int64_t count) const {
  if (first < 0 || first >= block_count())
    fail("validation_batch: the first block must be in [0, {}); got {}", block_count(), first);
  Batch batch{.length = context_};
  for (std::int64_t i = first; i < std::min(first + count, block_count()); ++i)
    append_window(batch, blocks_[static_cast<std::size_t>(i)].begin);
  return batch;
}

std::vector<Batch> Corpus::validation_batches(std::int64_t count, std::int64_t most) const {
  const std::int64_t total = std::min(most, block_count());
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < total; ++i) {
    if (i % count == 0) batches.push_back({.length = context_});
    append_window(batches.back(), blocks_[static_cast<std::size_t>(i * block_count() / total)].begin);
  }
  return batches;
}

}  // namespace capstan::train_gpt
