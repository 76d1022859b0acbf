// Finding, reading and judging files; see text.h.
#include "text.h"

#include <capstan/autograd/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <system_error>
#include <unordered_map>

namespace capstan::train_gpt {
namespace fs = std::filesystem;
namespace {

constexpr std::array project_entries{"README.md", "CMakeLists.txt", "autograd", "ops",
                                     "nn",        "examples",       "bench",    "tests"};

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r') || byte == 0x7f;
}

/// Why `content` is not text; empty when it is.
std::string not_text(std::string_view content) {
  if (content.empty()) return "an empty file";
  const auto nul = content.find('\0');
  if (nul != std::string_view::npos) return fmt::format("a NUL byte at offset {}", nul);
  const auto controls = std::count_if(content.begin(), content.end(), is_control);
  if (controls * 20 > static_cast<std::ptrdiff_t>(content.size()))
    return fmt::format("{} control characters in {} bytes", controls, content.size());
  return {};
}

std::string read_file(const fs::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) fail("data: {} must be readable; got \"{}\"", path.string(), std::strerror(errno));
  std::string content;
  std::array<char, 1 << 16> chunk;
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), file.get()))
    content.append(chunk.data(), count);
  if (std::ferror(file.get())) fail("data: {} must be readable; got \"{}\"", path.string(), std::strerror(errno));
  return content;
}

/// Regular files below `folder`, sorted by the bytes of their names relative to it, which no locale changes.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    std::error_code gone;  // a file that vanishes meanwhile is not there
    if (hidden && entry->is_directory(gone)) entry.disable_recursion_pending();
    if (!hidden && entry->is_regular_file(gone)) files.push_back(entry->path());
  }
  if (error) fail("data: {} must be readable; got \"{}\"", folder.string(), error.message());
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.generic_string() < b.generic_string(); });
  return files;
}

/// Gathers files into a Text, each content once.
class Reader {
 public:
  enum class Otherwise { complain, leave_out };

  void add(const fs::path& path, Otherwise otherwise) {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    if (!error && !paths_.insert(canonical).second) return;
    const std::string content = read_file(path);
    if (otherwise == Otherwise::leave_out && !not_text(content).empty()) return;
    if (is_repeated(content)) return;
    append(text_, path.generic_string(), content);
    by_hash_.emplace(std::hash<std::string_view>{}(content), text_.files.size() - 1);
  }

  std::size_t count() const { return paths_.size(); }
  bool empty() const { return text_.files.empty(); }
  Text take() { return std::move(text_); }

 private:
  bool is_repeated(std::string_view content) const {
    const auto [first, last] = by_hash_.equal_range(std::hash<std::string_view>{}(content));
    return std::any_of(first, last, [&](const auto& entry) { return text_.of(text_.files[entry.second]) == content; });
  }

  Text text_;
  std::set<fs::path> paths_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;
};

bool is_project(const fs::path& folder) {
  std::error_code error;
  return !folder.empty() && fs::is_regular_file(folder / "README.md", error) &&
         fs::is_directory(folder / "autograd", error);
}

bool is_project_text(const fs::path& path) {
  static constexpr std::array extensions{".h",     ".cpp", ".md", ".txt",
                                         ".cmake", ".sh",  ""};  // "": run and other scripts
  return std::find(extensions.begin(), extensions.end(), path.extension().string()) != extensions.end();
}

}  // namespace

std::string_view Text::of(const TextFile& file) const {
  return std::string_view(bytes).substr(static_cast<std::size_t>(file.begin), static_cast<std::size_t>(file.size));
}

void append(Text& text, std::string name, std::string_view content) {
  if (const std::string got = not_text(content); !got.empty())
    fail("data: {} must be text; got {}; give text files, best in UTF-8", name, got);
  text.files.push_back({std::move(name), text.size(), static_cast<std::int64_t>(content.size())});
  text.bytes += content;
}

Text read_text(const std::vector<fs::path>& paths) {
  Reader reader;
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found)
      fail("data: {} must be a file or a folder; got nothing of that name", path.string());
    if (error) fail("data: {} must be readable; got \"{}\"", path.string(), error.message());
    if (fs::is_directory(status)) {
      const std::size_t before = reader.count();
      const bool was_empty = reader.empty();
      for (const fs::path& file : files_below(path)) reader.add(file, Reader::Otherwise::leave_out);
      if (was_empty && reader.empty())
        fail("data: {} must hold text files; got a folder with {} files, none of them text", path.string(),
             reader.count() - before);
    } else if (fs::is_regular_file(status) || fs::is_fifo(status)) {
      reader.add(path, Reader::Otherwise::complain);
    } else {
      fail("data: {} must be a file or a folder; got a device or socket", path.string());
    }
  }
  if (reader.empty()) fail("data: there must be at least one text file; got none; name one with --data FILE");
  return reader.take();
}

Text read_project(const fs::path& root) {
  Reader reader;
  std::vector<fs::path> files;
  for (const char* name : project_entries) {
    const fs::path path = root / name;
    if (fs::is_directory(path)) {
      for (const fs::path& file : files_below(path))
        if (is_project_text(file)) files.push_back(file);
    } else if (fs::is_regular_file(path)) {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.generic_string() < b.generic_string(); });
  for (const fs::path& file : files) reader.add(file, Reader::Otherwise::leave_out);
  if (reader.empty())
    fail("data: {} must hold capstan's sources; got no text; name text with --data FILE", root.string());
  return reader.take();
}

fs::path find_project(const fs::path& built_from) {
  if (is_project(built_from)) return built_from;
  std::error_code error;
  for (const fs::path& start : {fs::read_symlink("/proc/self/exe", error).parent_path(), fs::current_path(error)}) {
    for (fs::path folder = start; !folder.empty(); folder = folder.parent_path()) {
      if (is_project(folder)) return folder;
      if (folder == folder.root_path()) break;
    }
  }
  fail(
      "data: capstan's sources must be at {}, above this program or above the current folder; got none; name text with "
      "--data FILE",
      built_from.string());
}

std::string hash_of(const Text& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const TextFile& file : text.files) {
    for (int shift = 0; shift < 64; shift += 8) mix(static_cast<unsigned char>(file.size >> shift));
    for (const char c : text.of(file)) mix(static_cast<unsigned char>(c));
  }
  return fmt::format("{:016x}", hash);
}

void require_same_data(const Text& text, const std::string& saved_hash, std::int64_t saved_size) {
  const std::string hash = hash_of(text);
  if (hash == saved_hash && text.size() == saved_size) return;
  fail(
      "resume: the text must be the one that the checkpoint was trained on, {} bytes with hash {}; got {} bytes with "
      "hash {}; bring the old files back, or start anew without --resume",
      saved_size, saved_hash, text.size(), hash);
}

}  // namespace capstan::train_gpt
