// Finds and reads the files that a model is trained on, and refuses what is not text. Not for: splitting the text into
// training and validation parts (see corpus.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::train_gpt {

/// One file inside a Text: its bytes are [begin, begin + size) of `Text::bytes`.
struct TextFile {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

/// The bytes of all files, one after the other, nothing between them.
struct Text {
  std::string bytes;
  std::vector<TextFile> files;

  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()); }
  std::string_view of(const TextFile& file) const;
};

/// Appends a file. Throws Error unless `content` is text: not empty, no NUL byte, and at most one byte in twenty a control
/// character other than tab, line feed, form feed and carriage return. Any encoding without NUL bytes passes, UTF-8 first.
void append(Text& text, std::string name, std::string_view content);

/// Reads files in the order given. A folder stands for all text files below it, in the order of their names' bytes;
/// what is empty or no text there is left out, as is every entry whose name begins with a dot. A file named twice, or
/// equal byte for byte to an earlier one, counts once: otherwise validation text would also be training text.
/// Throws Error for a path that is missing, unreadable, empty or not text, and for a folder without text.
Text read_text(const std::vector<std::filesystem::path>& paths);

/// capstan's own sources and README: the text that is there without any download. `root` is the project's folder.
/// Golden data, build trees and dot-files are left out; the order is that of the names' bytes.
Text read_project(const std::filesystem::path& root);

/// The project's folder: `built_from` (where the program was compiled) or the nearest folder at or above the program
/// itself or the current one that holds README.md and autograd/. Throws Error when there is none.
std::filesystem::path find_project(const std::filesystem::path& built_from);

/// 64-bit FNV-1a over the sizes and bytes of the files in their order, not over their names: a moved file is the same data.
/// Written as 16 hexadecimal digits, ready for a checkpoint's metadata.
std::string hash_of(const Text& text);

/// Throws Error when a checkpoint was trained on other data than `text`. `saved_hash` and `saved_size` are the
/// checkpoint's `hash_of` and `size`.
void require_same_data(const Text& text, const std::string& saved_hash, std::int64_t saved_size);

}  // namespace capstan::train_gpt
