// Collects the page's data; see report.h. The page itself is report.html, report.css and report.js.
#include "report.h"

#include <capstan/autograd/format.h>
#include <capstan/nn/summary.h>

#include <algorithm>
#include <cmath>

#include "drawing/page.h"
#include "printable.h"
#include "train_gpt/embedded.h"

namespace capstan::train_gpt {
namespace {

using drawing::Json;

constexpr std::int64_t most_points = 400;  // of a curve
constexpr double most_weights = 90'000;    // one byte each, 120 KB as base64
constexpr std::int64_t longest_line = 64;

/// Base64 (RFC 4648), which JSON can hold.
std::string base64(const std::string& bytes) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : digits[three >> (18 - 6 * k) & 63];
  }
  return out;
}

/// What stands at each byte: a printable character, or \xNN; a character of several bytes says which of them it is.
Json byte_labels(std::string_view text) {
  Json labels = Json::array();
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text.substr(i)), 1);
    const std::string shown = text[i] == '\n' ? "⏎" : text[i] == '\t' ? "⇥" : printable(text.substr(i, length));
    for (std::size_t k = 0; k < length; ++k)
      labels.push_back(length == 1 ? shown : fmt::format("{} {}/{}", shown, k + 1, length));
    i += length;
  }
  return labels;
}

/// The weights of all heads on one line, [block][head][query][key ≤ query], in 255ths.
std::string attention_bytes(const nn::Gpt& model, std::string_view line) {
  std::vector<std::int32_t> ids;
  for (const char byte : line) ids.push_back(static_cast<unsigned char>(byte));
  const auto length = static_cast<Index>(ids.size());
  Tensor x = model.tokens(tensor(ids, {1, length})) + model.positions(arange(length));
  std::string bytes;
  for (const nn::Block& block : model.blocks) {
    const Tensor normed = block.attention_norm(x);
    const AttentionResult attended = block.attention.attend(normed, normed, Mask::causal());
    x = x + attended.output;
    x = x + block.mlp(block.mlp_norm(x));
    const std::vector<float> weights = attended.weights.to_vector<float>();  // [1, H, T, T]
    for (std::size_t at = 0, n = ids.size(); at < weights.size(); ++at)
      if (at % n <= at / n % n) bytes += static_cast<char>(std::lround(weights[at] * 255));
  }
  return bytes;
}

/// [[step, value], …] of the rows that have the value; at most most_points, evenly spread, the last one among them.
Json curve(const std::vector<Metrics>& rows, std::optional<double> Metrics::*value) {
  std::vector<const Metrics*> measured;
  for (const Metrics& row : rows)
    if (row.*value) measured.push_back(&row);
  Json points = Json::array();
  const auto count = static_cast<std::int64_t>(measured.size());
  const std::int64_t every = (count + most_points - 1) / most_points;
  for (std::int64_t i = 0; i < count; ++i)
    if ((count - 1 - i) % every == 0) {
      const Metrics& row = *measured[static_cast<std::size_t>(i)];
      points.push_back({row.step, drawing::rounded(*(row.*value))});
    }
  return points;
}

}  // namespace

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789-_./+=:,") == std::string::npos;
  if (plain) return text;
  if (const std::string stored = stored_text(text); stored != text) {
    // Bytes that are not UTF-8 may stand in no page; bash, zsh and ksh know this form.
    std::string escapes = "$'";
    for (const char c : stored.substr(stored.find(':') + 1)) escapes += c == '\'' ? std::string("\\'") : std::string(1, c);
    return escapes + "'";
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_of(const Options& options) {
  const std::map<std::string, std::string> all = remembered(options);
  // Some defaults follow from these two.
  const char* const given[] = {"train_gpt", "--steps", all.at("--steps").c_str(), "--lr", all.at("--lr").c_str()};
  std::map<std::string, std::string> defaults = remembered(parse_options(5, given));
  defaults["--lr"] = remembered({}).at("--lr");
  for (const char* always : {"--seed", "--steps"}) defaults.erase(always);

  std::string command = "examples/run";
  for (const std::string& path : options.data)
    command += (&path == &options.data.front() ? " --data " : " ") +
               shell_word(std::filesystem::absolute(path).lexically_normal().string());
  for (const auto& [name, value] : all) {
    const auto found = defaults.find(name);
    if (name != "--data" && (found == defaults.end() || found->second != value))
      command += fmt::format(" {} {}", name, shell_word(value));
  }
  return command;
}

Span validation_line(const Corpus& corpus, std::int64_t most) {
  const std::string& bytes = corpus.text().bytes;
  Span longest;
  for (const Span& block : corpus.blocks()) {
    std::int64_t begin = -1;  // of a line; unknown until a line feed was seen
    for (std::int64_t i = block.begin; i < block.end; ++i) {
      if (bytes[static_cast<std::size_t>(i)] != '\n') continue;
      if (begin >= 0 && i - begin <= most && i - begin > longest.size()) longest = {begin, i};
      begin = i + 1;
    }
  }
  if (longest.size() > 0) return longest;
  const Span& first = corpus.blocks().front();
  return {first.begin, std::min(first.begin + most, first.end)};
}

std::string report_page(const Report& report) {
  const Options& options = report.options;
  const Text& text = report.corpus.text();
  const auto heads = static_cast<double>(options.blocks * options.heads);
  const auto fitting = static_cast<std::int64_t>(std::sqrt(2 * most_weights / heads));
  const Span at =
      validation_line(report.corpus, std::clamp<std::int64_t>(fitting, 1, std::min(longest_line, options.context)));
  const std::string_view line =
      std::string_view(text.bytes).substr(static_cast<std::size_t>(at.begin), static_cast<std::size_t>(at.size()));

  Json data;
  data["command"] = command_of(options);
  data["seed"] = options.seed;
  data["text"] = {{"bytes", text.size()},
                  {"files", text.files.size()},
                  {"hash", hash_of(text)},
                  {"training", report.corpus.training_bytes()},
                  {"validation", report.corpus.validation_bytes()}};
  data["step"] = report.trainer.step();
  data["steps"] = options.steps;
  data["parameters"] = nn::count_parameters(report.trainer.model());
  data["summary"] = nn::summary(report.trainer.model());
  data["loss"] = {{"validation", drawing::rounded(report.val_loss)},
                  {"unigram", drawing::rounded(report.baseline.unigram)},
                  {"bigram", drawing::rounded(report.baseline.bigram)}};
  data["curves"] = {{"train", curve(report.metrics, &Metrics::train_loss)},
                    {"validation", curve(report.metrics, &Metrics::val_loss)},
                    {"rate", curve(report.metrics, &Metrics::learning_rate)},
                    {"norm", curve(report.metrics, &Metrics::gradient_norm)},
                    {"speed", curve(report.metrics, &Metrics::tokens_per_s)}};
  data["attention"] = {{"blocks", options.blocks},
                       {"heads", options.heads},
                       {"length", at.size()},
                       {"labels", byte_labels(line)},
                       {"weights", base64(attention_bytes(report.trainer.model(), line))}};
  data["sample"] = {
      {"prompt", printable(options.prompt)}, {"temperature", options.temperature}, {"text", printable(report.sample)}};
  return drawing::render({.title = "train_gpt: a training report",
                          .body = embedded::report_html,
                          .style = embedded::report_css,
                          .script = embedded::report_js,
                          .data = std::move(data)});
}

}  // namespace capstan::train_gpt
