// report.html: what a training run learnt, on one page that needs nothing else. Not for: numbers of single steps, which are in
// metrics.csv.
#pragma once

#include <string>
#include <vector>

#include "entropy.h"
#include "metrics.h"
#include "trainer.h"

namespace capstan::train_gpt {

struct Report {
  const Options& options;
  const Corpus& corpus;
  const Entropies& baseline;
  const Trainer& trainer;
  const std::vector<Metrics>& metrics;
  double val_loss = 0;      // over all validation blocks
  std::string sample = {};  // bytes
};

/// The page: curves, attention weights of every layer and head on a line that was held out, the model, the sample, the
/// command. At most 300 KB: curves have at most 400 points, and the line is the shorter the more heads there are. The same
/// run gives the same bytes.
std::string report_page(const Report& report);

/// The command that trains the same: `examples/run` with every option that is not at its default.
std::string command_of(const Options& options);

/// `text` as one word of a POSIX shell, in quotes where it needs them.
std::string shell_word(const std::string& text);

/// A line of validation text, as bytes [begin, end) of the whole text: the longest of at most `most` bytes that lies inside
/// one block with its line feeds; the first of several; if there is none, the first `most` bytes of the first block.
Span validation_line(const Corpus& corpus, std::int64_t most);

}  // namespace capstan::train_gpt
