// Signals in the middle of products: a handler on the ordinary stack, thousands of times a second, changes nothing.
#include <capstan/autograd/tensor.h>
#include <capstan/ops/kernels/gemm.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <random>

namespace capstan::kernels {
namespace {

std::atomic<int> signals = 0;  // handlers run on any thread
void count(int) { signals.fetch_add(1, std::memory_order_relaxed); }

class Alarm {
 public:
  explicit Alarm(int microseconds) {
    struct sigaction action {};
    action.sa_handler = &count;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~Alarm() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

TEST(GemmSignals, HandlersOnTheOrdinaryStackCorruptNeitherProductsNorTheHeap) {
  const Index m = 512, n = 128;
  std::mt19937 random(1);
  const Alarm alarm(100);
  const int before = signals;
  for (const Index k : {32, 128, 512}) {
    for (const bool transposed : {false, true}) {
      std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)), first;
      for (float& x : a) x = static_cast<float>(random() % 7) - 3;
      for (float& x : b) x = static_cast<float>(random() % 5) - 2;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
      while (std::chrono::steady_clock::now() < end) {
        // The heap is exercised beside the products, so that it notices what was written over.
        std::vector<float> c(static_cast<std::size_t>(m * n));
        const std::vector<char> one(random() % 3000), two(random() % 9000);
        Product<float> product;
        product.m = m;
        product.n = n;
        product.k = k;
        product.a = a.data();
        product.a_row = k;
        product.a_column = 1;
        product.b = b.data();
        product.b_row = transposed ? 1 : n;
        product.b_column = transposed ? k : 1;
        product.c = c.data();
        product.c_row = n;
        gemm(product);
        if (first.empty()) first = c;
        ASSERT_EQ(c, first);
      }
    }
  }
  EXPECT_GT(signals - before, 10);
}

}  // namespace
}  // namespace capstan::kernels
