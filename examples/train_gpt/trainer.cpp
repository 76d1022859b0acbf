#include "trainer.h"

#include <capstan/autograd/format.h>

#include <charconv>

#include "printable.h"

namespace capstan::train_gpt {

namespace {

constexpr const char* format_name = "capstan train_gpt 1";

nn::Gpt make_model(const Options& options) {
  nn::Init init{.seed = options.seed};
  return nn::Gpt(init, {.vocab = 256,
                        .context = options.context,
                        .width = options.width,
                        .heads = options.heads,
                        .blocks = options.blocks});
}

/// One purpose, one key.
enum class Purpose : std::uint64_t { data = 1, sample = 2 };
Key key_for(const Options& options, Purpose purpose) {
  return Key{.seed = options.seed}.derive(static_cast<std::uint64_t>(purpose));
}

Tensor ids_of(const Batch& batch) { return tensor(batch.ids, {batch.count, batch.length}); }
Tensor targets_of(const Batch& batch) { return tensor(batch.targets, {batch.count, batch.length}); }

const std::string& field(const nn::Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.metadata.find(name);
  if (found == checkpoint.metadata.end())
    fail("resume: the checkpoint must hold {}; it does not; is it one of train_gpt?", name);
  return found->second;
}

std::int64_t whole_number(const nn::Checkpoint& checkpoint, const std::string& name) {
  const std::string& text = field(checkpoint, name);
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    fail("resume: the checkpoint's {} must be a whole number; got \"{}\"", name, text);
  return number;
}

}  // namespace

Trainer::Trainer(const Options& options, const Corpus& corpus)
    : options_(options),
      corpus_(corpus),
      model_(make_model(options)),
      optimizer_{.beta1 = 0.9, .beta2 = 0.95, .weight_decay = options.weight_decay, .decays = nn::decay_matrices} {}

StepResult Trainer::train() {
  const std::int64_t number = step_ + 1;
  const Batch batch = corpus_.training_batch(key_for(options_, Purpose::data), number, options_.batch);
  const Tensor ids = ids_of(batch), targets = targets_of(batch);
  auto [loss, gradients] = value_and_grad(model_, [&](const nn::Gpt& model) { return model.loss(ids, targets); });

  StepResult result{.loss = loss.item(), .learning_rate = options_.schedule()(number)};
  const double no_limit = 1e300;
  result.gradient_norm = nn::clip_gradient_norm(gradients, options_.clip > 0 ? options_.clip : no_limit);
  optimizer_.lr = result.learning_rate;
  optimizer_.step(model_, gradients);
  step_ = number;
  return result;
}

double Trainer::validate(std::int64_t most) const {
  double sum = 0;
  std::int64_t tokens = 0;
  for (const Batch& batch : corpus_.validation_batches(options_.batch, most)) {
    const std::int64_t count = batch.count * batch.length;
    sum += model_.loss(ids_of(batch), targets_of(batch)).item() * static_cast<double>(count);
    tokens += count;
  }
  return sum / static_cast<double>(tokens);
}

std::string Trainer::sample() const {
  std::string text = options_.prompt.empty() ? "\n" : options_.prompt;
  std::vector<std::int32_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  tokens = nn::generate(
      model_, tokens,
      {.count = options_.sample_bytes, .temperature = options_.temperature, .key = key_for(options_, Purpose::sample)});
  text.clear();
  for (const std::int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

void Trainer::save(const std::filesystem::path& path) const {
  nn::Checkpoint checkpoint;
  nn::insert(checkpoint.tensors, "model.", nn::state_dict(model_));
  nn::insert(checkpoint.tensors, "optimizer.", optimizer_.state_dict());
  for (const auto& [name, value] : remembered(options_)) checkpoint.metadata[name] = stored_text(value);
  checkpoint.metadata["format"] = format_name;
  checkpoint.metadata["step"] = fmt::format("{}", step_);
  checkpoint.metadata["data_hash"] = hash_of(corpus_.text());
  checkpoint.metadata["data_bytes"] = fmt::format("{}", corpus_.text().size());
  nn::save_checkpoint(path.string(), checkpoint);
}

void Trainer::load(const nn::Checkpoint& checkpoint) {
  require_same_data(corpus_.text(), field(checkpoint, "data_hash"), whole_number(checkpoint, "data_bytes"));
  const std::int64_t step = whole_number(checkpoint, "step");
  nn::AdamW optimizer = optimizer_;
  optimizer.load_state(nn::select(checkpoint.tensors, "optimizer."));
  nn::load_state(model_, nn::select(checkpoint.tensors, "model."));
  optimizer_ = std::move(optimizer);
  step_ = step;
}

Options options_of(const nn::Checkpoint& checkpoint, const Options& command_line) {
  const std::string& format = field(checkpoint, "format");
  if (format != format_name) fail("resume: the checkpoint's format must be \"{}\"; got \"{}\"", format_name, format);
  std::map<std::string, std::string> saved;
  for (const auto& [name, text] : checkpoint.metadata) saved[name] = bytes_of_stored(text);
  return resumed(command_line, saved);
}

}  // namespace capstan::train_gpt
