#include <capstan/autograd/format.h>
#include <capstan/autograd/memory_label.h>
#include <capstan/autograd/memory_profile.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace capstan {

namespace {

/// A storage remembers the profile that counted it and the entry: it may outlive the profile.
constexpr std::uint32_t most_entries = 4096;

struct Counter {
  std::mutex mutex;
  std::uint32_t profile = 0;  // numbers the profiles, from 1
  std::vector<MemoryProfile::Entry> entries;
  std::map<std::pair<std::string, bool>, std::uint32_t> places;
  Index live = 0, peak = 0;

  std::uint32_t place_of(std::string_view op, bool backward) {
    const auto next = static_cast<std::uint32_t>(entries.size());
    if (next == most_entries) return 0;
    const auto [found, is_new] = places.try_emplace({std::string(op), backward}, next);
    if (is_new) entries.push_back({.op = std::string(op), .backward = backward});
    return found->second;
  }
};

// Never destroyed: destructors of static objects may still free tensors.
Counter& counter() {
  static auto* const instance = new Counter;
  return *instance;
}

/// What this thread counts for: an entry of the profile of that number.
struct Label {
  std::uint32_t profile = 0, place = 0;
};
constinit thread_local Label label{};

}  // namespace

namespace detail {

std::uint32_t count_made(std::size_t bytes) noexcept {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  if (!memory_is_profiled.load(std::memory_order_relaxed)) return 0;
  const std::uint32_t place = label.profile == c.profile ? label.place : 0;
  MemoryProfile::Entry& entry = c.entries[place];
  const auto more = static_cast<Index>(bytes);
  ++entry.storages;
  entry.bytes += more;
  entry.live += more;
  entry.peak = std::max(entry.peak, entry.live);
  c.live += more;
  if (c.live > c.peak) {
    c.peak = c.live;
    for (MemoryProfile::Entry& each : c.entries) each.at_peak = each.live;
  }
  return c.profile * most_entries + place;
}

void count_freed(std::uint32_t counted_as, std::size_t bytes) noexcept {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  if (!memory_is_profiled.load(std::memory_order_relaxed) || counted_as / most_entries != c.profile) return;
  c.entries[counted_as % most_entries].live -= static_cast<Index>(bytes);
  c.live -= static_cast<Index>(bytes);
}

void MemoryLabel::begin(std::string_view op, bool backward) noexcept {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  if (label.profile == c.profile) return;
  try {
    label = {c.profile, c.place_of(op, backward)};
    begun_ = true;
  } catch (const std::bad_alloc&) {}  // counts for what is outside ops
}

void MemoryLabel::end() noexcept { label = {}; }

}  // namespace detail

MemoryProfile::MemoryProfile() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  if (detail::memory_is_profiled.load(std::memory_order_relaxed))
    fail("memory_profile: one profile may live at a time; got a second one; end the first one before");
  // Storages keep the number in 32 bits with the entry's.
  c.profile = c.profile % (std::numeric_limits<std::uint32_t>::max() / most_entries) + 1;
  c.entries.clear();
  c.places.clear();
  c.live = c.peak = 0;
  c.place_of("", false);
  detail::memory_is_profiled.store(true, std::memory_order_relaxed);
}

MemoryProfile::~MemoryProfile() {
  const std::lock_guard lock(counter().mutex);
  detail::memory_is_profiled.store(false, std::memory_order_relaxed);
}

std::vector<MemoryProfile::Entry> MemoryProfile::entries() const {
  std::vector<Entry> sorted;
  {
    const std::lock_guard lock(counter().mutex);
    sorted = counter().entries;
  }
  std::ranges::stable_sort(sorted, [](const Entry& a, const Entry& b) {
    return std::tie(b.at_peak, b.peak, a.op, a.backward) < std::tie(a.at_peak, a.peak, b.op, b.backward);
  });
  return sorted;
}

Index MemoryProfile::live() const {
  const std::lock_guard lock(counter().mutex);
  return counter().live;
}

Index MemoryProfile::peak() const {
  const std::lock_guard lock(counter().mutex);
  return counter().peak;
}

namespace {
std::string readable(Index bytes) {
  constexpr const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes);
  int unit = 0;
  for (; size >= 999.5 && unit < 4; ++unit) size /= 1000;
  return fmt::format("{:.{}f} {}", size, unit == 0 || size >= 99.5 ? 0 : 1, units[unit]);
}
}  // namespace

std::string to_string(const MemoryProfile& profile) {
  constexpr const char* row = "{:<28} {:>9} {:>10} {:>10} {:>10} {:>10}\n";
  std::string text = fmt::format(fmt::runtime(row), "op", "storages", "made", "at peak", "peak", "now");
  MemoryProfile::Entry sum{.op = "all", .live = profile.live(), .peak = profile.peak(), .at_peak = profile.peak()};
  const auto add = [&](const MemoryProfile::Entry& e) {
    const std::string name = fmt::format("{}{}", e.op.empty() ? "(outside ops)" : e.op, e.backward ? ", backward" : "");
    text += fmt::format(fmt::runtime(row), name, e.storages, readable(e.bytes), readable(e.at_peak), readable(e.peak),
                        readable(e.live));
  };
  for (const MemoryProfile::Entry& entry : profile.entries()) {
    add(entry);
    sum.storages += entry.storages;
    sum.bytes += entry.bytes;
  }
  add(sum);
  return text;
}

}  // namespace capstan
