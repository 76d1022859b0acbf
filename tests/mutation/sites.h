// Where the sources of rules, masks and kernels can be changed by one small fault, found mechanically: by patterns over
// the text without comments and strings. Not for: applying, building or testing a mutant (mutants.cpp and run do that).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace capstan::mutation {

/// One fault that can be planted: columns [begin, begin + length) of a line become `replacement`.
struct Site {
  std::string unit;   ///< "rule Softmax", "mask Mask::band", "kernel softmax.cpp"
  std::string op;     ///< the catalogue's name of the rule's op, else ""
  std::string fault;  ///< "sign", "operand order", "dropped term", …
  std::string file;   ///< relative to the project's folder
  std::size_t line = 0, begin = 0, length = 0;
  std::string replacement;
};

/// All sites of one file's text, in the order of lines; `file` decides what its units are.
std::vector<Site> sites_of(const std::string& file, const std::string& text);

/// All sites of the project in `root`: the rules and functions of ops/*.cpp (and accumulate), the masks
/// of ops/mask.cpp, ops/kernels/*.
std::vector<Site> all_sites(const std::filesystem::path& root);

/// The text with one fault planted.
std::string planted(const std::string& text, const Site& site);

}  // namespace capstan::mutation
