#include <capstan/autograd/memory_label.h>
#include <capstan/autograd/pool.h>
#include <capstan/autograd/storage.h>

#include <new>

namespace capstan {

namespace {

/// Up to here header and payload share a block: larger ones would miss their size class by the header.
constexpr std::size_t shared_block_bytes = 1024 - sizeof(Storage);
static_assert(sizeof(Storage) == pool_alignment);

// With exact sizes payloads have blocks of their own, or an overrun of a small one would not be seen.
bool shares_block(std::size_t bytes) { return bytes <= shared_block_bytes && !pool_is_exact(); }

}  // namespace

Storage* Storage::create(std::size_t bytes) {
  const bool shares = shares_block(bytes);
  const std::size_t behind = shares && bytes > inline_bytes ? bytes : 0;
  auto* storage = ::new (pool_allocate(sizeof(Storage) + behind)) Storage;
  storage->bytes_ = bytes;
  if (shares) {
    storage->data_ = behind == 0 ? static_cast<void*>(storage->inline_) : storage + 1;
  } else {
    try {
      storage->data_ = pool_allocate(bytes);
    } catch (...) {
      storage->~Storage();
      pool_deallocate(storage, sizeof(Storage));
      throw;
    }
  }
  if (detail::memory_is_profiled.load(std::memory_order_relaxed)) [[unlikely]]
    storage->counted_as_ = detail::count_made(bytes);
  return storage;
}

void Storage::destroy() noexcept {
  if (counted_as_ != 0) [[unlikely]]
    detail::count_freed(counted_as_, bytes_);
  const bool shares = shares_block(bytes_);
  const std::size_t behind = shares && bytes_ > inline_bytes ? bytes_ : 0;
  if (!shares) pool_deallocate(data_, bytes_);
  this->~Storage();
  pool_deallocate(this, sizeof(Storage) + behind);
}

}  // namespace capstan
