// mutants: lists a sample of the faults that can be planted in rules, masks and kernels, shows one, or plants it in a
// copy of the sources. Deterministic: numbers and seeds mean the same until the sources change. Driven by run.
//   mutants sample ROOT SEED COUNT   a line a mutant wanted: unit TAB op TAB candidates, to be tried until one compiles
//   mutants show ROOT NUMBER         file:line, the fault, the line before and after
//   mutants plant ROOT NUMBER        changes the file in ROOT
//   mutants equivalent ROOT NUMBER LIST   exit status 0 if LIST holds the fault: a line "file | line before | line after |
//                                         why no result can change"
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <stdexcept>

#include "mutation/sites.h"

namespace {

using capstan::mutation::Site;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string line_of(const std::string& text, std::size_t line) {
  std::size_t start = 0;
  while (line-- > 0) start = text.find('\n', start) + 1;
  const std::size_t from = text.find_first_not_of(' ', start);
  return text.substr(from, text.find('\n', from) - from);
}

/// A draw in [0, bound) with the same value on every platform.
std::size_t draw(std::mt19937_64& random, std::size_t bound) { return static_cast<std::size_t>(random() % bound); }

/// Each unit once, then units of randomly drawn sites until there are `count`; for each some candidates of that unit.
void sample(const std::vector<Site>& sites, std::uint64_t seed, std::size_t count) {
  constexpr std::size_t candidates = 6;
  std::map<std::string, std::vector<std::size_t>> unused;
  for (std::size_t i = 0; i < sites.size(); ++i) unused[sites[i].unit].push_back(i);
  std::mt19937_64 random(seed);
  const auto print = [&](const std::string& unit) {
    std::vector<std::size_t>& numbers = unused[unit];
    if (numbers.empty()) return false;
    std::string line = fmt::format("{}\t{}\t", unit, sites[numbers.front()].op);
    for (std::size_t i = 0; i < candidates && !numbers.empty(); ++i) {
      const std::size_t place = draw(random, numbers.size());
      line += fmt::format("{}{}", i == 0 ? "" : " ", numbers[place]);
      numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(place));
    }
    fmt::print("{}\n", line);
    return true;
  };
  std::size_t printed = 0;
  std::vector<std::string> units;
  for (const auto& [unit, numbers] : unused) units.push_back(unit);
  for (const std::string& unit : units) printed += print(unit) ? 1 : 0;
  for (std::size_t tries = 0; printed < count && tries < 100 * count; ++tries)
    printed += print(sites[draw(random, sites.size())].unit) ? 1 : 0;
}

void show(const std::filesystem::path& root, const Site& site) {
  const std::string text = content_of(root / site.file);
  fmt::print("{}:{}  {}  ({})\n  - {}\n  + {}\n", site.file, site.line + 1, site.fault, site.unit,
             line_of(text, site.line), line_of(planted(text, site), site.line));
}

void plant(const std::filesystem::path& root, const Site& site) {
  const std::string text = planted(content_of(root / site.file), site);
  std::ofstream stream(root / site.file, std::ios::binary);
  stream << text;
}

/// True if a line of the list names this fault by its file and its line before and after.
bool is_equivalent(const std::filesystem::path& root, const Site& site, const std::string& list) {
  const std::string text = content_of(root / site.file);
  const std::string start =
      fmt::format("{} | {} | {} | ", site.file, line_of(text, site.line), line_of(planted(text, site), site.line));
  return ('\n' + content_of(list)).find('\n' + start) != std::string::npos;
}

}  // namespace

int main(int count, char** values) try {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  const std::string verb = count > 1 ? arguments[1] : "";
  if ((verb == "sample" && count != 5) || (verb == "equivalent" && count != 5) ||
      ((verb == "show" || verb == "plant") && count != 4) || count < 3)
    throw std::invalid_argument(
        "mutants sample ROOT SEED COUNT | show ROOT NUMBER | plant ROOT NUMBER | equivalent ROOT NUMBER LIST");
  const std::filesystem::path root = arguments[2];
  const std::vector<Site> sites = capstan::mutation::all_sites(root);
  if (verb == "sample") {
    sample(sites, std::stoull(arguments[3]), std::stoull(arguments[4]));
    return 0;
  }
  const Site& site = sites.at(std::stoull(arguments[3]));
  if (verb == "equivalent") return is_equivalent(root, site, arguments[4]) ? 0 : 1;
  verb == "show" ? show(root, site) : plant(root, site);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "mutants: {}\n", error.what());
  return 2;
}
