// f32 products by oneDNN's dnnl_sgemm, always on the calling thread alone: its own threading cuts K on some shapes, so
// its bytes depend on the number of threads. gemm.cpp splits the work instead.
#include <capstan/autograd/error.h>
#include <capstan/ops/kernels/gemm_parts.h>
#include <capstan/ops/kernels/scratch.h>

#include <dlfcn.h>
#include <dnnl.h>
#include <signal.h>

#include <algorithm>
#include <optional>

namespace capstan::kernels {
namespace {

/// Keeps oneDNN on this thread while alive. oneDNN asks libgomp for omp_get_max_threads(), a property of each thread
/// that omp_set_num_threads changes; inside a region of two threads it would stay single anyway, inside num_threads(1)
/// it would not. Both functions are looked up in the running process, because this must hold with the std::thread
/// backend too, where nothing of ours links an OpenMP runtime but oneDNN has brought libgomp along; where oneDNN was
/// built without OpenMP there is nothing to find and nothing to do.
class SingleThread {
 public:
  SingleThread() {
    if (get() == nullptr || set() == nullptr) return;
    before_ = get()();
    if (before_ != 1) set()(1);
  }
  ~SingleThread() {
    if (before_ > 1) set()(before_);
  }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  using Get = int (*)();
  using Set = void (*)(int);
  static Get get() {
    static const Get function = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    return function;
  }
  static Set set() {
    static const Set function = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    return function;
  }
  int before_ = 1;
};

/// Holds signals back on this thread while alive. The AVX-512 code that oneDNN 2.6 generates keeps data below the stack
/// pointer, where the kernel writes the frame of a signal handler: a Ctrl-C in the middle of a product corrupted the heap.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

/// An operand as BLAS wants it: rows or columns dense, and the distance between them.
struct Operand {
  const float* data;
  char transposed;
  Index leading;
};

/// Empty if neither stride is 1 (or the other one is too small, as in a broadcast).
std::optional<Operand> as_blas(const float* data, Index rows, Index columns, Index row, Index column) {
  const bool dense_rows = column == 1 || columns == 1;
  if (dense_rows && (rows == 1 || row >= columns)) return Operand{data, 'N', rows == 1 ? columns : row};
  const bool dense_columns = row == 1 || rows == 1;
  if (dense_columns && (columns == 1 || column >= rows)) return Operand{data, 'T', columns == 1 ? rows : column};
  return std::nullopt;
}

Operand packed(const float* data, Index rows, Index columns, Index row, Index column, float* to) {
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) to[i * columns + j] = data[i * row + j * column];
  return {to, 'N', columns};
}

}  // namespace

void gemm_large(const Product<float>& p) {
  std::optional<Operand> a = as_blas(p.a, p.m, p.k, p.a_row, p.a_column);
  std::optional<Operand> b = as_blas(p.b, p.k, p.n, p.b_row, p.b_column);
  Scratch<float> a_copy(a ? 0 : p.m * p.k), b_copy(b ? 0 : p.k * p.n);
  if (!a) a = packed(p.a, p.m, p.k, p.a_row, p.a_column, a_copy.data());
  if (!b) b = packed(p.b, p.k, p.n, p.b_row, p.b_column, b_copy.data());
  const SingleThread single;
  const NoSignals no_signals;
  const float beta = p.accumulate ? 1.0f : 0.0f;
  const dnnl_status_t status = dnnl_sgemm(a->transposed, b->transposed, p.m, p.n, p.k, 1.0f, a->data, a->leading,
                                          b->data, b->leading, beta, p.c, std::max(p.c_row, p.n));
  if (status != dnnl_success)
    throw Error("gemm: oneDNN must accept the product; it returned an error; free some memory");
}

}  // namespace capstan::kernels
