// The JSON header of a safetensors file, text ↔ entries. Not for: file access (see safetensors.h), or users.
#pragma once

#include <capstan/nn/io/safetensors.h>

namespace capstan::nn::detail {

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< sorted by name; the ranges tile [0, data_bytes)
  std::map<std::string, std::string> metadata;
};

/// Parses and checks a header against the number of bytes that follow it. `path` is for the sentences of errors.
SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view json, std::uint64_t data_bytes);

/// The header's text, entries in the order given, padded with spaces to a multiple of 8 bytes.
std::string format_safetensors_header(std::span<const SafetensorsEntry> entries,
                                      const std::map<std::string, std::string>& metadata);

/// A name in quotes for an error's sentence, escaped, and cut if it is long.
std::string in_quotes(std::string_view text);

/// Bytes an element takes in the file.
std::uint64_t stored_size(SafetensorsType type);

}  // namespace capstan::nn::detail
