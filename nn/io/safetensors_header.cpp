// Event-by-event parsing of the header, the checks on its ranges, and its text.
#include <capstan/autograd/format.h>
#include <capstan/nn/io/safetensors_header.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace capstan::nn::detail {
namespace {

using Json = nlohmann::json;
using Type = SafetensorsType;

struct TypeRow {
  std::string_view name;
  Type type;
  DType dtype;
  std::uint64_t size;
};
constexpr std::array<TypeRow, 6> types = {{{"F32", Type::f32, DType::f32, 4},
                                           {"F64", Type::f64, DType::f64, 8},
                                           {"I32", Type::i32, DType::i32, 4},
                                           {"BOOL", Type::boolean, DType::boolean, 1},
                                           {"I64", Type::i64, DType::i32, 8},
                                           {"U8", Type::u8, DType::i32, 1}}};

constexpr std::uint64_t max_elements = std::uint64_t{1} << 62;

// Takes the parser's events one by one, so that a hostile header is refused at its first wrong token: no tree is built,
// nothing nests deeper than the format does, and a second key of the same name cannot hide the first.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(const std::string& path, SafetensorsHeader& header) : path_(path), header_(header) {}

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) return enter(Place::header);
    if (place_ != Place::header) refuse("an object");
    if (key_ == "__metadata__") {
      if (std::exchange(metadata_seen_, true))
        fail("safetensors: __metadata__ must occur once; got it twice, in {}", path_);
      return enter(Place::metadata);
    }
    entry_ = {};
    entry_.name = key_;
    type_seen_ = shape_seen_ = offsets_seen_ = false;
    return enter(Place::entry);
  }
  bool end_object() override {
    if (place_ == Place::entry) finish_entry();
    return enter(place_ == Place::header ? Place::outside : Place::header);
  }
  bool key(string_t& key) override {
    if (place_ == Place::entry) {
      bool* seen = key == "dtype"          ? &type_seen_
                   : key == "shape"        ? &shape_seen_
                   : key == "data_offsets" ? &offsets_seen_
                                           : nullptr;
      if (seen == nullptr)
        fail("safetensors: {} must have dtype, shape and data_offsets only; got {}, in {}", in_quotes(entry_.name),
             in_quotes(key), path_);
      if (std::exchange(*seen, true))
        fail("safetensors: {} must have one {}; got two, in {}", in_quotes(entry_.name), key, path_);
      field_ = key;
    } else {
      key_ = key;
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::entry || field_ == "dtype") refuse("an array");
    numbers_.clear();
    return enter(Place::numbers);
  }
  bool end_array() override {
    if (field_ == "shape") {
      sizes_ = numbers_;
    } else {
      if (numbers_.size() != 2)
        fail("safetensors: data_offsets of {} must be two numbers; got {}, in {}", in_quotes(entry_.name),
             numbers_.size(), path_);
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    return enter(Place::entry);
  }
  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, text).second)
        fail("safetensors: names must be unique; got {} twice in __metadata__, in {}", in_quotes(key_), path_);
      return true;
    }
    if (place_ != Place::entry || field_ != "dtype") refuse("a string");
    const auto row = std::find_if(types.begin(), types.end(), [&](const TypeRow& known) { return known.name == text; });
    if (row == types.end())
      fail("safetensors: dtype of {} must be F32, F64, I32, BOOL, I64 or U8; got {}, in {}; convert the file first",
           in_quotes(entry_.name), in_quotes(text), path_);
    entry_.stored = row->type;
    entry_.dtype = row->dtype;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::numbers) refuse("a number");
    if (numbers_.size() == max_rank)
      fail("safetensors: {} of {} must have at most {} numbers; got more, in {}", field_, in_quotes(entry_.name),
           max_rank, path_);
    numbers_.push_back(value);
    return true;
  }
  bool number_integer(number_integer_t value) override { refuse_number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { refuse_number(text); }
  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("safetensors: the header must be JSON; got a syntax error at its byte {}, in {}", position, path_);
  }

 private:
  enum class Place { outside, header, metadata, entry, numbers };

  bool enter(Place place) {
    place_ = place;
    return true;
  }

  [[noreturn]] void refuse(std::string_view found) const {
    switch (place_) {
      case Place::outside: fail("safetensors: the header must be a JSON object; got {}, in {}", found, path_);
      case Place::header: fail("safetensors: {} must be an object; got {}, in {}", in_quotes(key_), found, path_);
      case Place::metadata:
        fail("safetensors: __metadata__ must hold text only; got {} for {}, in {}", found, in_quotes(key_), path_);
      case Place::entry:
        fail("safetensors: {} of {} must be {}; got {}, in {}", field_, in_quotes(entry_.name),
             field_ == "dtype" ? "a string" : "an array", found, path_);
      case Place::numbers: break;
    }
    fail("safetensors: {} of {} must hold numbers only; got {}, in {}", field_, in_quotes(entry_.name), found, path_);
  }
  [[noreturn]] void refuse_number(const std::string& text) const {
    if (place_ != Place::numbers) refuse("a number");
    fail("safetensors: {} of {} must hold integers in [0, 2^64); got {}, in {}", field_, in_quotes(entry_.name), text,
         path_);
  }

  void finish_entry() {
    const char* missing = !type_seen_ ? "dtype" : !shape_seen_ ? "shape" : !offsets_seen_ ? "data_offsets" : nullptr;
    if (missing != nullptr)
      fail("safetensors: {} must have dtype, shape and data_offsets; got no {}, in {}", in_quotes(entry_.name), missing,
           path_);
    std::uint64_t elements = 1;  // zero sizes count as 1 here: the other sizes must fit an Index too
    bool empty = false;
    for (const std::uint64_t size : sizes_) {
      if (size > max_elements || elements > max_elements / std::max<std::uint64_t>(size, 1))
        fail("safetensors: {} must have at most 2^62 elements; got shape [{}], in {}", in_quotes(entry_.name),
             fmt::join(sizes_, ", "), path_);
      elements *= std::max<std::uint64_t>(size, 1);
      empty = empty || size == 0;
      entry_.shape.push_back(static_cast<Index>(size));
    }
    if (entry_.begin > entry_.end)
      fail("safetensors: data_offsets of {} must not decrease; got [{}, {}], in {}", in_quotes(entry_.name),
           entry_.begin, entry_.end, path_);
    std::uint64_t bytes = 0;
    const bool overflow = __builtin_mul_overflow(empty ? 0 : elements, stored_size(entry_.stored), &bytes);
    if (overflow || bytes != entry_.end - entry_.begin)
      fail("safetensors: {} must take {} bytes (shape {}, {} each); got data_offsets [{}, {}], in {}",
           in_quotes(entry_.name), overflow ? "more than 2^64" : std::to_string(bytes), entry_.shape,
           stored_size(entry_.stored), entry_.begin, entry_.end, path_);
    header_.entries.push_back(std::move(entry_));
  }

  const std::string& path_;
  SafetensorsHeader& header_;
  Place place_ = Place::outside;
  bool metadata_seen_ = false, type_seen_ = false, shape_seen_ = false, offsets_seen_ = false;
  std::string key_, field_;
  std::vector<std::uint64_t> numbers_, sizes_;
  SafetensorsEntry entry_;
};

void check_tiling(const std::string& path, std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t position = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.end > data_bytes)
      fail("safetensors: {} must end within the file's {} bytes of data; got data_offsets [{}, {}], in {}",
           in_quotes(entry.name), data_bytes, entry.begin, entry.end, path);
    if (entry.begin != position)
      fail("safetensors: tensors must lie end to end; got {} at byte {} where byte {} is due, in {}",
           in_quotes(entry.name), entry.begin, position, path);
    position = entry.end;
  }
  if (position != data_bytes)
    fail("safetensors: the file must end with its last tensor, at byte {} of the data; got {} bytes, in {}", position,
         data_bytes, path);
}

void sort_by_name(const std::string& path, std::vector<SafetensorsEntry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name == b.name; });
  if (twin != entries.end())
    fail("safetensors: names must be unique; got {} twice, in {}", in_quotes(twin->name), path);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 200;
  const fmt::string_view shown{text.data(), std::min(text.size(), longest)};
  return fmt::format("{:?}{}", shown, text.size() > longest ? "…" : "");
}

std::uint64_t stored_size(SafetensorsType type) { return types[static_cast<std::size_t>(type)].size; }

SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view json, std::uint64_t data_bytes) {
  const std::string name = in_quotes(path);
  if (json.empty() || json.front() != '{')
    fail("safetensors: the header must be a JSON object; got no '{{' at its start, in {}", name);
  // The parser takes a zero byte for the end of its input.
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos)
    fail("safetensors: the header must be JSON; got a syntax error at its byte {}, in {}", zero + 1, name);
  SafetensorsHeader header;
  HeaderReader reader(name, header);
  Json::sax_parse(json.begin(), json.end(), &reader);
  sort_by_name(name, header.entries);
  check_tiling(name, header.entries, data_bytes);
  sort_by_name(name, header.entries);
  return header;
}

std::string format_safetensors_header(std::span<const SafetensorsEntry> entries,
                                      const std::map<std::string, std::string>& metadata) {
  const auto text = [](const std::string& raw) {
    try {
      return Json(raw).dump();
    } catch (const Json::type_error&) { fail("safetensors: names and metadata must be UTF-8; got {}", in_quotes(raw)); }
  };
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) json += text(key) + ":" + text(value) + ",";
    json.back() = '}';
    json += ',';
  }
  for (const SafetensorsEntry& entry : entries)
    json += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", text(entry.name),
                        types[static_cast<std::size_t>(entry.stored)].name, fmt::join(entry.shape, ","), entry.begin,
                        entry.end);
  if (json.back() == ',') json.pop_back();
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  return json;
}

}  // namespace capstan::nn::detail
