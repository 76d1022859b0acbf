// Bytes as text: safe to print, whatever a model writes, or stored where only UTF-8 may be. Not for: files of text, which get the
// bytes themselves.
#pragma once

#include <string>
#include <string_view>

namespace capstan::train_gpt {

/// Valid UTF-8 as it is, tab and line feed too; every other byte, and every byte of a control character (a terminal may
/// obey those), as \xNN. So "abc\xff" gives the seven characters abc\xff.
std::string printable(std::string_view text);

/// How many bytes at the start of `text` are one valid UTF-8 character (Unicode 15, table 3-7); 0 if there is none.
std::size_t utf8_length(std::string_view text);

/// Any bytes as UTF-8, to be stored: UTF-8 as it is, other bytes (the name of an old file) after the mark "bytes:" and with \xNN for
/// those that are not UTF-8, and for the backslash.
std::string stored_text(const std::string& bytes);
/// The bytes that `stored_text` made the text from.
std::string bytes_of_stored(const std::string& text);

}  // namespace capstan::train_gpt
