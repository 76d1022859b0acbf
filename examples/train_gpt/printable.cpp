// UTF-8 and escapes; see printable.h.
#include "printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

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

namespace {
constexpr std::string_view stored_mark = "bytes:";

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}
}  // namespace

std::string stored_text(const std::string& bytes) {
  if (is_utf8(bytes) && !bytes.starts_with(stored_mark)) return bytes;
  std::string text(stored_mark);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t length = utf8_length(rest);
    if (length == 0 || rest[0] == '\\')
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(rest[0]));
    else
      text += rest.substr(0, length);
    rest.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::string bytes_of_stored(const std::string& text) {
  if (!text.starts_with(stored_mark)) return text;
  std::string bytes;
  for (std::size_t i = stored_mark.size(); i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const end = text.data() + std::min(i + 4, text.size());
    if (text[i] == '\\' && i + 3 < text.size() && std::from_chars(text.data() + i + 2, end, byte, 16).ptr == end) {
      bytes += static_cast<char>(byte);
      i += 3;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

}  // namespace capstan::train_gpt
