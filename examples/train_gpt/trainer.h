// Model, optimiser and step counter as one thing that trains, saves and comes back. Not for: the command line, files of text
// (corpus.h), or what is shown (main.cpp).
#pragma once

#include <capstan/nn/io/checkpoint.h>
#include <capstan/nn/nn.h>

#include <filesystem>

#include "corpus.h"
#include "options.h"

namespace capstan::train_gpt {

/// What one step measured.
struct StepResult {
  double loss = 0;  // nats per byte, before the update
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping
};

class Trainer {
 public:
  Trainer(const Options& options, const Corpus& corpus);

  /// Steps done.
  std::int64_t step() const { return step_; }
  const nn::Gpt& model() const { return model_; }

  /// One step: the batch and the learning rate are functions of the step's number and the options alone. Throws Error if the
  /// gradient is not finite; the model is then as it was.
  StepResult train();

  /// Mean loss in nats per byte over at most `most` validation blocks, evenly spread.
  double validate(std::int64_t most) const;

  /// The prompt and what the model writes after it.
  std::string sample() const;

  /// Writes weights, optimiser, step, options and the data's hash into one file, atomically.
  void save(const std::filesystem::path& path) const;
  /// Goes on from a checkpoint. Throws Error if it does not fit the options or the data.
  void load(const nn::Checkpoint& checkpoint);

 private:
  Options options_;
  const Corpus& corpus_;
  nn::Gpt model_;
  nn::AdamW optimizer_;
  std::int64_t step_ = 0;
};

/// The options of a resumed run: see resumed() in options.h. Throws Error if the file is no checkpoint of train_gpt.
Options options_of(const nn::Checkpoint& checkpoint, const Options& command_line);

}  // namespace capstan::train_gpt
