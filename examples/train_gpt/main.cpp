// train_gpt: trains a GPT on the bytes of any text, shows how it fares against counting, and lets it write some.
// Started by examples/run; --help lists the options. The last line of standard output is
//   result: val_loss=… bigram=… unigram=… tokens_per_s=…        (losses and entropies in nats per byte)
#include <capstan/autograd/format.h>
#include <capstan/ops/kernels/parallel.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>
#include <optional>

#include "drawing/page.h"
#include "entropy.h"
#include "metrics.h"
#include "printable.h"
#include "progress.h"
#include "report.h"
#include "signals.h"
#include "trainer.h"

namespace capstan::train_gpt {
namespace {

constexpr int exit_error = 1;
constexpr int exit_interrupted = 130;  // what a shell reports for Ctrl-C

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void print(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

Text read(const Options& options) {
  if (options.data.empty()) return read_project(find_project(CAPSTAN_SOURCE_DIR));
  return read_text({options.data.begin(), options.data.end()});
}

void make_folder(const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) fail("--out: must be a folder that can be made; got \"{}\": {}", out, error.message());
}

/// How to go on from here, as a command that works in any folder and any shell.
std::string how_to_go_on(const Options& options) {
  return fmt::format("go on with: examples/run --resume {}",
                     shell_word(std::filesystem::absolute(options.checkpoint_file()).lexically_normal().string()));
}

void describe(const Options& options, const Corpus& corpus, const Entropies& baseline, const Trainer& trainer) {
  const Text& text = corpus.text();
  print(fmt::format("data        {} bytes in {} file{}, hash {}", text.size(), text.files.size(),
                    text.files.size() == 1 ? "" : "s", hash_of(text)));
  print(fmt::format("split       {} bytes to train on, {} ({:.1f} %) to validate on, in {} blocks",
                    corpus.training_bytes(), corpus.validation_bytes(),
                    100.0 * static_cast<double>(corpus.validation_bytes()) / static_cast<double>(text.size()),
                    corpus.block_count()));
  print(fmt::format("baselines   unigram entropy {:.4f}, bigram entropy {:.4f} nats per byte", baseline.unigram,
                    baseline.bigram));
  print(fmt::format("threads     {}", kernels::thread_count()));
  print(fmt::format("output      {}\n", options.out));
  print(nn::summary(trainer.model()));
}

/// Training until the steps are done, the time is up, or a signal came.
class Run {
 public:
  Run(const Options& options, Trainer& trainer, const Entropies& baseline, MetricsFile& metrics)
      : options_(options), trainer_(trainer), baseline_(baseline), metrics_(metrics), before_(metrics.seconds()) {
    state_.steps = options.steps;
    state_.first_step = state_.step = trainer.step();
    state_.seconds_limit = options.seconds;
  }

  /// True if a signal ended it early.
  bool train() {
    const StopSignals signals;
    Progress progress(stdout);
    while (!stopped_ && !over()) one_step(progress, signals);
    progress.finish();
    if (saved_ != trainer_.step()) save();
    return stopped_;
  }

  double tokens_per_s() const { return state_.tokens_per_s; }

  /// The last word: over every validation block.
  double final_validation() {
    if (!final_loss_) final_loss_ = trainer_.validate(std::numeric_limits<std::int64_t>::max());
    return *final_loss_;
  }

 private:
  bool over() const {
    return trainer_.step() >= options_.steps || (options_.seconds > 0 && state_.seconds >= options_.seconds);
  }

  void one_step(Progress& progress, const StopSignals& signals) {
    const Clock clock;
    const StepResult result = trainer_.train();
    state_.seconds += clock.seconds();
    state_.step = trainer_.step();
    state_.loss = result.loss;
    const auto tokens = static_cast<double>((state_.step - state_.first_step) * options_.batch * options_.context);
    state_.tokens_per_s = tokens / state_.seconds;
    progress.update(state_);

    Metrics row{.step = state_.step,
                .train_loss = result.loss,
                .val_loss = validation(),
                .learning_rate = result.learning_rate,
                .gradient_norm = result.gradient_norm,
                .tokens_per_s = state_.tokens_per_s,
                .seconds = before_ + state_.seconds};
    if (row.val_loss && !over())
      progress.print(fmt::format("step {:>6}  train {:.4f}  validation {:.4f}  (bigram {:.4f}, unigram {:.4f})",
                                 state_.step, result.loss, *row.val_loss, baseline_.bigram, baseline_.unigram));
    metrics_.append(row);
    if (due(options_.checkpoint_every)) save();
    stopped_ = signals.stop_requested() && !over();
  }

  /// A quick look at intervals, the whole at the end.
  std::optional<double> validation() {
    if (over()) return final_validation();
    if (due(options_.eval_every)) return trainer_.validate(options_.eval_windows);
    return std::nullopt;
  }

  bool due(std::int64_t every) const { return every > 0 && state_.step % every == 0; }

  void save() {
    trainer_.save(options_.checkpoint_file());
    saved_ = trainer_.step();
  }

  const Options& options_;
  Trainer& trainer_;
  const Entropies& baseline_;
  MetricsFile& metrics_;
  double before_;  // training time of earlier runs
  ProgressState state_;
  std::int64_t saved_ = -1;
  bool stopped_ = false;
  std::optional<double> final_loss_;
};

int run(int count, const char* const* arguments) {
  Options options = parse_options(count, arguments);
  if (!options.help.empty()) {
    std::fputs(options.help.c_str(), stdout);
    return 0;
  }
  nn::Checkpoint checkpoint;
  if (options.resume) {
    const std::string file = options.resume_file().string();
    if (!std::filesystem::exists(file))
      fail("resume: there must be a checkpoint to go on from; got no file {}; name one, or start anew without --resume",
           file);
    checkpoint = nn::load_checkpoint(file);
    options = options_of(checkpoint, options);
  }
  const Corpus corpus(read(options), options.context);
  const Entropies baseline = entropies(corpus.text());
  Trainer trainer(options, corpus);
  if (options.resume) trainer.load(checkpoint);
  make_folder(options.out);
  MetricsFile metrics = options.resume ? MetricsFile::resume(options.metrics_file(), trainer.step())
                                       : MetricsFile::create(options.metrics_file());

  describe(options, corpus, baseline, trainer);
  if (options.resume)
    print(fmt::format("resumed     after step {}{}", trainer.step(),
                      trainer.step() < options.steps ? "" : "; nothing is left to train"));
  else {
    const double loss = trainer.validate(options.eval_windows);
    print(fmt::format("start       validation {:.4f} nats per byte", loss));
    metrics.append({.step = 0, .val_loss = loss});
  }

  Run training(options, trainer, baseline, metrics);
  if (training.train()) {
    print(fmt::format("stopped after step {} of {}; saved {}", trainer.step(), options.steps,
                      options.checkpoint_file().string()));
    print(how_to_go_on(options));
    return exit_interrupted;
  }
  const double loss = training.final_validation();
  print(fmt::format("end         validation {:.4f} nats per byte after step {}, {:.3f} of the bigram entropy", loss,
                    trainer.step(), loss / baseline.bigram));
  if (trainer.step() < options.steps) {
    print(fmt::format(
        "the time was up after step {} of {}; the learning rate follows the steps, so more of them will help",
        trainer.step(), options.steps));
    print(how_to_go_on(options));
  }
  const std::string sample = options.sample_bytes > 0 ? trainer.sample() : std::string();
  drawing::write_file(options.report_file(), report_page({.options = options,
                                                          .corpus = corpus,
                                                          .baseline = baseline,
                                                          .trainer = trainer,
                                                          .metrics = read_metrics(options.metrics_file()),
                                                          .val_loss = loss,
                                                          .sample = sample}));
  print(fmt::format("report      {}", options.report_file().string()));
  if (!sample.empty())
    print(fmt::format("\nsample      temperature {}, seed {}\n{}\n", options.temperature, options.seed,
                      printable(sample)));
  print(fmt::format("result: val_loss={:.4f} bigram={:.4f} unigram={:.4f} tokens_per_s={:.0f}", loss, baseline.bigram,
                    baseline.unigram, training.tokens_per_s()));
  return 0;
}

}  // namespace
}  // namespace capstan::train_gpt

int main(int count, char** arguments) {
  try {
    return capstan::train_gpt::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", error.what());
    return capstan::train_gpt::exit_error;
  }
}
