// Tests of storage.h: alignment, counting owners, and threads that share one.
#include <capstan/autograd/pool.h>
#include <capstan/autograd/storage.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <thread>
#include <vector>

#include "support/upstream.h"

namespace capstan {
namespace {

std::uintptr_t address(Storage* storage) { return reinterpret_cast<std::uintptr_t>(storage->data()); }

TEST(Storage, IsAlignedTo64BytesAbove32AndTo16Below) {
  for (const std::size_t bytes : {0, 1, 4, 8, 31, 32, 33, 64, 100, 4096, 1 << 20}) {
    const StorageHandle handle = StorageHandle::adopt(Storage::create(bytes));
    EXPECT_EQ(handle.get()->bytes(), bytes);
    EXPECT_EQ(address(handle.get()) % (bytes > 32 ? 64 : 16), 0u) << bytes;
    std::memset(handle.get()->data(), 0x5a, bytes);
  }
}

TEST(Storage, SmallBytesLieInTheHeader) {
  const StorageHandle small = StorageHandle::adopt(Storage::create(32)),
                      large = StorageHandle::adopt(Storage::create(33));
  auto inside = [](Storage* storage) {
    return address(storage) - reinterpret_cast<std::uintptr_t>(storage) < sizeof(Storage);
  };
  EXPECT_EQ(inside(small.get()), !pool_is_exact());
  EXPECT_FALSE(inside(large.get()));
}

TEST(Storage, UpTo960BytesFollowTheHeaderInItsBlock) {
  if (pool_is_exact()) return;  // there every payload has a block of its own: PoolDeathTest shows why
  test::CountingUpstream upstream;
  const auto blocks_for = [&](std::size_t bytes) {
    pool_trim();  // nothing of that size is cached
    const std::size_t before = upstream.allocations();
    const StorageHandle handle = StorageHandle::adopt(Storage::create(bytes));
    std::memset(handle.get()->data(), 0x5a, bytes);
    EXPECT_TRUE(handle.get()->unique());  // the header is whole
    return upstream.allocations() - before;
  };
  for (const std::size_t bytes : {32, 33, 64, 500, 960}) EXPECT_EQ(blocks_for(bytes), 1u) << bytes;
  for (const std::size_t bytes : {961, 1024, 5000}) EXPECT_EQ(blocks_for(bytes), 2u) << bytes;
}

TEST(Storage, HandlesCountOwners) {
  StorageHandle a = StorageHandle::adopt(Storage::create(8));
  EXPECT_TRUE(a.get()->unique());
  {
    const StorageHandle b = a;
    EXPECT_FALSE(a.get()->unique());
    EXPECT_EQ(b.get(), a.get());
  }
  EXPECT_TRUE(a.get()->unique());
  StorageHandle c = std::move(a);
  EXPECT_EQ(a.get(), nullptr);  // NOLINT(bugprone-use-after-move): a moved-from handle is empty
  EXPECT_TRUE(c.get()->unique());
  c = StorageHandle(c);
  EXPECT_TRUE(c.get()->unique());
  Storage* given = c.release();
  EXPECT_EQ(c.get(), nullptr);
  given->release();
}

TEST(Storage, ThreadsMayCopyAndDropHandles) {
  const StorageHandle shared = StorageHandle::adopt(Storage::create(1000));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([handle = shared] {
      for (int i = 0; i < 1000; ++i) const StorageHandle copy = handle;
    });
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_TRUE(shared.get()->unique());
}

TEST(Storage, TheLastOwnerMayBeAnotherThread) {
  for (int round = 0; round < 100; ++round) {
    StorageHandle handle = StorageHandle::adopt(Storage::create(100));
    std::thread other([copy = handle] { static_cast<char*>(copy.get()->data())[0] = 1; });
    handle = StorageHandle();
    other.join();
  }
}

/// Serves blocks one directly behind the other, while it lives.
class Neighbours final : public std::pmr::memory_resource {
 public:
  Neighbours() {
    pool_trim();
    previous_ = set_pool_upstream(this);
  }
  ~Neighbours() override {
    pool_trim();
    set_pool_upstream(previous_);
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* at = memory_ + used_;
    std::size_t room = sizeof(memory_) - used_;
    if (!std::align(alignment, bytes, at, room)) throw std::bad_alloc();
    used_ = sizeof(memory_) - room + bytes;
    return at;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    const auto* at = static_cast<std::byte*>(block);
    if (at < memory_ || at >= memory_ + sizeof(memory_)) previous_->deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::pmr::memory_resource* previous_;
  std::size_t used_ = 0;
  alignas(64) std::byte memory_[64 * 1024];
};

TEST(Storage, APayloadThatHappensToFollowItsHeaderIsABlockOfItsOwn) {
  Neighbours upstream;
  Storage::create(1024)->release();
  {
    const StorageHandle living = StorageHandle::adopt(Storage::create(1024));
    std::memset(living.get()->data(), 1, 1024);
    void* block = pool_allocate(1152);
    std::memset(block, 2, 1152);
    EXPECT_EQ(living.get()->bytes(), 1024u);
    EXPECT_EQ(std::count(static_cast<char*>(living.get()->data()), static_cast<char*>(living.get()->data()) + 1024, 1),
              1024);
    pool_deallocate(block, 1152);
  }
}

}  // namespace
}  // namespace capstan
