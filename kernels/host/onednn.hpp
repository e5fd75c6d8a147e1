#pragma once
// The part of oneDNN that the host's kernels use. Everything runs on the calling thread's OpenMP
// team.

#include "kernels/kernel.hpp"

#include <dnnl.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::kernels::host {

/// Version of the library that was loaded, "2.6.3".
[[nodiscard]] std::string onednn_version();
/// Best instruction set that the library found: "avx512_core_amx".
[[nodiscard]] std::string onednn_instruction_set();

[[nodiscard]] const dnnl::engine& cpu();
/// fp32, bf16 and fp16 storage only.
[[nodiscard]] dnnl::memory::data_type onednn_type(Storage storage);
/// Row-major, dense.
[[nodiscard]] dnnl::memory::desc dense(std::int64_t rows, std::int64_t cols, Storage storage);
/// Library's own scratch memory stays with the calling thread.
[[nodiscard]] dnnl::primitive_attr attributes();

/// A primitive with its arguments' layouts, made once and run on many buffers, by several threads
/// at a time if need be.
class Operation {
 public:
  using Layouts = std::vector<std::pair<int, dnnl::memory::desc>>;  ///< DNNL_ARG_... and layout
  Operation(dnnl::primitive primitive, const dnnl::primitive_desc_base& description,
            Layouts layouts);

  /// `data` in the order of the layouts.
  void run(std::initializer_list<void*> data) const;
  /// The library's name of the implementation, "brg:avx512_core_amx_bf16".
  [[nodiscard]] const std::string& algorithm() const { return algorithm_; }

 private:
  dnnl::primitive primitive_;
  Layouts layouts_;
  dnnl::memory::desc scratch_;
  std::string algorithm_;
};

/// A matrix as it lies in memory; steps in elements.
struct Layout {
  std::int64_t row_step = 0, col_step = 0, batch_step = 0;
};

/// C[m,n] (+)= A[m,k] B[k,n] (+ bias[n]), then GELU in its tanh form where asked; `batch` times.
/// Arguments of run(): A, B, the bias where there is one, C.
struct Product {
  GemmShape shape;
  Storage input = Storage::fp32, output = Storage::fp32;
  Layout a, b, c;
  bool accumulates = false, bias = false, gelu = false;
};
/// Throws std::runtime_error where the library has no implementation (bf16 on an old processor).
[[nodiscard]] Operation product(const Product& wanted);

/// While it lives, primitives are made for one thread: for use inside a parallel region.
class SingleThreadScope {
 public:
  SingleThreadScope();
  ~SingleThreadScope();
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int threads_;
};

}  // namespace foreplan::kernels::host
