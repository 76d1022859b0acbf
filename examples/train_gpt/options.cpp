// One table describes every option: its help, its reading, its writing, and whether a checkpoint fixes it. See options.h.
#include "options.h"

#include <capstan/autograd/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <variant>

namespace capstan::train_gpt {
namespace {

enum class OnResume {
  fixed,     // shapes the training: the checkpoint's value holds
  free,      // the command line may change it
  this_run,  // belongs to one run of the program; a checkpoint does not store it
};

using Member =
    std::variant<std::int64_t Options::*, std::uint64_t Options::*, double Options::*, std::string Options::*>;

struct Entry {
  const char* name;
  Member member;
  OnResume on_resume;
  const char* group;
  const char* placeholder;
  const char* description;
  double least;  // of numbers
  bool least_allowed = true;
  const char* default_text = nullptr;  // where the default follows from other options
};

constexpr std::int64_t most = 1'000'000'000;  // of whole numbers but the seed: products of two still fit
constexpr double none = -std::numeric_limits<double>::infinity();

// --data and --resume take any number of values and one or none: parse_options adds them by hand.
const std::vector<Entry>& table() {
  using enum OnResume;
  static const std::vector<Entry> entries{
      {"--out", &Options::out, this_run, "Files", "DIR", "where metrics.csv, checkpoint.safetensors and report.html go", none},

      {"--width", &Options::width, fixed, "Model", "N", "numbers per position, a multiple of --heads", 1},
      {"--heads", &Options::heads, fixed, "Model", "N", "attention heads in a block", 1},
      {"--blocks", &Options::blocks, fixed, "Model", "N", "transformer blocks", 1},
      {"--context", &Options::context, fixed, "Model", "N", "bytes the model sees at most", 1},

      {"--batch", &Options::batch, fixed, "Training", "N", "windows of --context bytes in a step", 1},
      {"--steps", &Options::steps, fixed, "Training", "N", "length of the run and of the learning rate's schedule", 1},
      {"--seconds", &Options::seconds, this_run, "Training", "X",
       "stop after this much training time, even if steps are left;\nnever changes the learning rate", 0, false,
       "170, no limit with --steps or --resume"},
      {"--lr", &Options::lr, fixed, "Training", "X", "highest learning rate (AdamW)", 0, false},
      {"--min-lr", &Options::min_lr, fixed, "Training", "X", "learning rate at the last step", 0, true,
       "a tenth of --lr"},
      {"--warmup", &Options::warmup, fixed, "Training", "N", "steps over which the rate rises to --lr", 0, true,
       "a tenth of --steps, at most 100"},
      {"--weight-decay", &Options::weight_decay, fixed, "Training", "X", "decay of the weights per unit of rate", 0},
      {"--clip", &Options::clip, fixed, "Training", "X", "largest norm of the gradients; 0 = no limit", 0},
      {"--seed", &Options::seed, fixed, "Training", "N", "of parameters, order of the data and the sample", 0},

      {"--eval-every", &Options::eval_every, free, "Watching", "N", "steps between validations; 0 = only at the end",
       0},
      {"--eval-windows", &Options::eval_windows, free, "Watching", "N",
       "most windows validated on before the end;\nthe last validation looks at all", 1},
      {"--checkpoint-every", &Options::checkpoint_every, free, "Watching", "N",
       "steps between checkpoints; 0 = only at the end", 0},

      {"--prompt", &Options::prompt, free, "Sample", "TEXT", "how the sample begins", none, true, "a line break"},
      {"--sample-bytes", &Options::sample_bytes, free, "Sample", "N", "length of the sample; 0 = none", 0},
      {"--temperature", &Options::temperature, free, "Sample", "X",
       "below 1 plainer, above 1 wilder; 0 = always the likeliest", 0},
  };
  return entries;
}

std::string text_of(const Options& options, const Member& member) {
  return std::visit([&](auto pointer) { return fmt::format("{}", options.*pointer); }, member);
}

template <class Number>
Number read_number(const Entry& entry, const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  const bool whole = std::is_integral_v<Number>;
  bool good = error == std::errc() && stopped == end;
  if constexpr (!std::is_integral_v<Number>) good = good && std::isfinite(number);
  const bool in_range =
      static_cast<double>(number) > entry.least || (entry.least_allowed && static_cast<double>(number) == entry.least);
  if (!good || !in_range)
    fail("{}: must be a {} {} {}; got \"{}\"", entry.name, whole ? "whole number" : "number",
         entry.least_allowed ? "of at least" : "above", entry.least, text);
  if constexpr (std::is_same_v<Number, std::int64_t>)
    if (number > most) fail("{}: must be at most {}; got {}", entry.name, most, number);
  return number;
}

void read_into(Options& options, const Entry& entry, const std::string& text) {
  std::visit(
      [&](auto pointer) {
        auto& value = options.*pointer;
        using Value = std::remove_reference_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>)
          value = text;
        else
          value = read_number<Value>(entry, text);
      },
      entry.member);
}

CLI::Option* describe(CLI::Option* option, const char* group, const char* placeholder,
                      const std::string& default_text) {
  return option->group(group)->type_name(placeholder)->option_text(fmt::format("{} ({})", placeholder, default_text));
}

void add_table(CLI::App& app, Options& options) {
  for (const Entry& entry : table()) {
    const std::string default_text = entry.default_text ? entry.default_text : text_of(options, entry.member);
    const auto read = [&options, &entry](const CLI::results_t& results) {
      read_into(options, entry, results.front());
      options.given.insert(entry.name);
      return true;
    };
    describe(app.add_option(entry.name, CLI::callback_t(read), entry.description), entry.group, entry.placeholder,
             default_text);
  }
}

/// Defaults that follow from what was given.
void derive_defaults(Options& options) {
  if (!options.is_given("--min-lr")) options.min_lr = options.lr / 10;
  if (!options.is_given("--warmup")) options.warmup = std::min<std::int64_t>(options.steps / 10, 100);
  if (!options.is_given("--seconds") && (options.is_given("--steps") || options.resume)) options.seconds = 0;
  if (!options.is_given("--out") && !options.checkpoint.empty()) {
    options.out = options.resume_file().parent_path().string();
    if (options.out.empty()) options.out = ".";
  }
}

}  // namespace

std::filesystem::path Options::resume_file() const {
  if (checkpoint.empty()) return checkpoint_file();
  std::error_code error;
  const std::filesystem::path path = checkpoint;
  return std::filesystem::is_directory(path, error) ? path / checkpoint_file().filename() : path;
}

Options parse_options(int count, const char* const* arguments) {
  Options options;
  CLI::App app("Trains a GPT on the bytes of any text and lets it write some.\nThreads: OMP_NUM_THREADS.", "train_gpt");
  app.option_defaults()->always_capture_default(false);
  app.get_formatter()->column_width(34);
  app.set_help_flag("-h,--help", "this page")->group("Files");

  const auto read_data = [&options](const CLI::results_t& results) {
    options.data = results;
    options.given.insert("--data");
    return true;
  };
  const auto read_resume = [&options](const CLI::results_t& results) {
    options.resume = true;
    options.checkpoint = results.empty() ? std::string() : results.front();
    options.given.insert("--resume");
    return true;
  };
  describe(app.add_option("--data", CLI::callback_t(read_data), "text files, or folders of them")->expected(1, 1 << 20),
           "Files", "FILE ...", "capstan's own sources");
  describe(app.add_option("--resume", CLI::callback_t(read_resume), "go on from a checkpoint")->expected(0, 1), "Files",
           "[FILE]", "the one in --out");
  add_table(app, options);
  app.allow_extras();
  try {
    app.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    options.help = app.help();
    return options;
  } catch (const CLI::ParseError& error) { fail("options: {}; see --help", error.what()); }
  if (!app.remaining().empty()) fail("options: \"{}\" is not one of them; see --help", app.remaining().front());
  derive_defaults(options);
  if (!options.resume) check(options);  // else once the checkpoint's options are known, in resumed()
  return options;
}

void check(const Options& options) {
  if (options.width % options.heads != 0)
    fail("--width: must be a multiple of --heads; got {} and {} heads", options.width, options.heads);
  if (options.min_lr > options.lr) fail("--min-lr: must be at most --lr; got {} and {}", options.min_lr, options.lr);
  if (options.warmup > options.steps)
    fail("--warmup: must be at most --steps; got {} and {} steps", options.warmup, options.steps);
  if (options.out.empty()) fail("--out: must be the name of a folder; got \"\"");
}

std::map<std::string, std::string> remembered(const Options& options) {
  std::map<std::string, std::string> saved;
  for (const Entry& entry : table())
    if (entry.on_resume != OnResume::this_run) saved[entry.name] = text_of(options, entry.member);
  std::string paths;  // one a line
  for (const std::string& path : options.data) {
    if (path.find('\n') != std::string::npos) fail("--data: names must not contain line feeds; got \"{}\"", path);
    paths += std::filesystem::absolute(path).lexically_normal().string() + '\n';
  }
  saved["--data"] = paths;
  return saved;
}

Options resumed(const Options& command_line, const std::map<std::string, std::string>& saved) {
  Options options = command_line;
  const auto saved_value = [&saved](const char* name) -> const std::string& {
    const auto found = saved.find(name);
    if (found == saved.end())
      fail("resume: the checkpoint must hold the option {}; it does not; is it one of train_gpt?", name);
    return found->second;
  };
  for (const Entry& entry : table()) {
    if (entry.on_resume == OnResume::this_run) continue;
    const std::string& value = saved_value(entry.name);
    const std::string got = text_of(command_line, entry.member);
    const bool given = command_line.is_given(entry.name);
    if (given && entry.on_resume == OnResume::fixed && got != value)
      fail("resume: {} must be the checkpoint's {}; got {}; leave it out, or start anew without --resume", entry.name,
           value, got);
    if (!given) read_into(options, entry, value);
  }
  if (!command_line.is_given("--data")) {
    options.data.clear();
    const std::string& paths = saved_value("--data");
    for (std::size_t begin = 0; begin < paths.size();) {
      const std::size_t end = std::min(paths.find('\n', begin), paths.size());
      options.data.push_back(paths.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  check(options);
  return options;
}

}  // namespace capstan::train_gpt
