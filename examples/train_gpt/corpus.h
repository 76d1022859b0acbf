// Splits a text into training and validation parts and cuts windows from them. Not for: reading files (see text.h).
#pragma once

#include <capstan/autograd/random.h>

#include <cstdint>
#include <vector>

#include "text.h"

namespace capstan::train_gpt {

/// A stretch of `Text::bytes`.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// Windows of T + 1 bytes, each as T inputs and the T bytes that follow them: both [count, length], row-major.
struct Batch {
  std::int64_t count = 0;   // B
  std::int64_t length = 0;  // T
  std::vector<std::int32_t> ids{};
  std::vector<std::int32_t> targets{};
};

/// A text, split. The split depends on the text and on the context T alone, never on a seed:
///
///   run       one file of at least 8 (T + 1) bytes, or neighbouring shorter files joined until they are that long; what is
///             still shorter goes to the training side of the run beside it.
///   block     T + 1 validation bytes. A run of n bytes gives ⌈n / (20 (T + 1))⌉ of them, so at least 5 % of all bytes are
///             held out and every file of 8 (T + 1) bytes takes part. Each lies somewhere in a cell of its own, cells
///             being of equal size; where it lies varies from cell to cell, so that both parts get starts and ends of files.
///   segment   what lies between two blocks of a run: training text. A training window never leaves its segment.
///
/// Each block predicts its last T bytes, each from the bytes before it in the block; its first byte is predicted by nobody.
class Corpus {
 public:
  /// Throws Error if the text is shorter than `needed(context)` bytes.
  Corpus(Text text, std::int64_t context);

  /// 2 (T + 1): one training window and one validation block.
  static std::int64_t needed(std::int64_t context) { return 2 * (context + 1); }

  const Text& text() const { return text_; }
  std::int64_t context() const { return context_; }
  const std::vector<Span>& segments() const { return segments_; }
  const std::vector<Span>& blocks() const { return blocks_; }
  std::int64_t training_bytes() const;
  std::int64_t validation_bytes() const { return block_count() * (context_ + 1); }
  std::int64_t block_count() const { return static_cast<std::int64_t>(blocks_.size()); }
  /// The number of different training windows.
  std::int64_t window_count() const { return windows_before_.back(); }

  /// The batch of one training step: `count` windows, each drawn uniformly from all of them. A function of key and step
  /// alone, so that a resumed run sees what an unbroken one would have seen. Use the key for nothing else.
  Batch training_batch(Key key, std::int64_t step, std::int64_t count) const;

  /// Blocks [first, first + count), in order; fewer when the blocks end. Throws Error if `first` is not a block.
  Batch validation_batch(std::int64_t first, std::int64_t count) const;

  /// At most `most` blocks, evenly spread over all of them and always the same: a quick look where a text is long.
  /// Cut into batches of at most `count` windows. With `most` ≥ block_count() these are all blocks, each once.
  std::vector<Batch> validation_batches(std::int64_t count, std::int64_t most) const;

  /// Where the i-th training window begins in the text, i in [0, window_count()).
  std::int64_t window_begin(std::int64_t i) const;

 private:
  void split();
  void split_run(Span run, Span core);
  void add_segment(Span segment);
  void append_window(Batch& batch, std::int64_t begin) const;

  Text text_;
  std::int64_t context_;
  std::vector<Span> segments_;
  std::vector<Span> blocks_;
  std::vector<std::int64_t> windows_before_;  // windows_before_[s]: training windows in the segments before the s-th
};

}  // namespace capstan::train_gpt
