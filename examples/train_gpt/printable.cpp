// UTF-8 and escapes; see printable.h.
#include "printable.h"

#include <fmt/format.h>

namespace capstan::train_gpt {

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  // The second byte's range is narrower where the code would be written too long, be half of a UTF-16 pair, or be
  // above U+10FFFF.
  unsigned low = 0x80, high = 0xbf;
  std::size_t length = 0;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  return length;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    const bool ascii_control = lead == 0x7f || (lead < 0x20 && lead != '\n' && lead != '\t');
    const bool c1_control = length == 2 && lead == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || ascii_control || c1_control) {
      for (const char byte : character) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace capstan::train_gpt
