// Text made safe to print: whatever bytes a model writes. Not for: files, which get the bytes themselves.
#pragma once

#include <string>
#include <string_view>

namespace capstan::train_gpt {

/// Valid UTF-8 as it is, tab and line feed too; every other byte, and every byte of a control character (a terminal may
/// obey those), as \xNN. So "abc\xff" gives the seven characters abc\xff.
std::string printable(std::string_view text);

/// How many bytes at the start of `text` are one valid UTF-8 character (Unicode 15, table 3-7); 0 if there is none.
std::size_t utf8_length(std::string_view text);

}  // namespace capstan::train_gpt
