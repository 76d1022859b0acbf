#include <capstan/autograd/pool.h>
#include <capstan/autograd/storage.h>

#include <new>

namespace capstan {

Storage* Storage::create(std::size_t bytes) {
  auto* storage = ::new (pool_allocate(sizeof(Storage))) Storage;
  storage->bytes_ = bytes;
  // With exact sizes payloads stay outside the header, or an overrun of a small one would not be seen.
  if (bytes <= inline_bytes && !pool_is_exact()) {
    storage->data_ = storage->inline_;
    return storage;
  }
  try {
    storage->data_ = pool_allocate(bytes);
  } catch (...) {
    storage->~Storage();
    pool_deallocate(storage, sizeof(Storage));
    throw;
  }
  return storage;
}

void Storage::destroy() noexcept {
  if (data_ != inline_) pool_deallocate(data_, bytes_);
  this->~Storage();
  pool_deallocate(this, sizeof(Storage));
}

}  // namespace capstan
