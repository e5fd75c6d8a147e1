#pragma once
// One product of matrices as cuBLASLt takes it: descriptors, layouts, and the algorithm that runs.

#include "kernels/cuda/gemm_cublaslt_api.hpp"
#include "kernels/reference/gemm_case.hpp"

#include <memory>
#include <string>
#include <vector>

namespace foreplan::kernels::cuda {

enum class Choice : std::uint8_t { heuristic, fastest };

/// Device memory of one launch; null where the problem has no such operand.
struct ProductBuffers {
  void *a = nullptr, *b = nullptr;
  void *scale_a = nullptr, *scale_b = nullptr;
  void* bias = nullptr;
  void* c = nullptr;
};

/// The library works on columns where we keep rows, so that it is asked for C^T = B^T A^T: our B is
/// its first operand and our A its second.
class CublasLtProduct {
 public:
  /// Fails where the library has no algorithm for the problem on this device; throws
  /// std::runtime_error where the device fails. To find the fastest algorithm it times them in
  /// memory of its own of `operand_bytes`.
  static Result<CublasLtProduct> make(const reference::GemmProblem& problem, Choice choice,
                                      const std::vector<std::size_t>& operand_bytes);

  void launch(const ProductBuffers& buffers, void* workspace, Stream stream) const;

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Layout, and what the library says of the algorithm: number, tile, stages, split of k, ...
  [[nodiscard]] std::string algorithm() const;

 private:
  explicit CublasLtProduct(const reference::GemmProblem& problem);
  void describe_scales();
  void describe_epilogue();
  [[nodiscard]] std::vector<cublasLtMatmulHeuristicResult_t> proposals(int most) const;
  void choose_fastest(const std::vector<cublasLtMatmulHeuristicResult_t>& candidates,
                      const std::vector<std::size_t>& operand_bytes);
  [[nodiscard]] float milliseconds(const ProductBuffers& buffers, void* workspace) const;
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const;

  template <class T>
  using Owned = std::unique_ptr<T, cublasStatus_t (*)(T*)>;
  using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
  [[nodiscard]] static Layout layout(cudaDataType type, std::int64_t rows, std::int64_t cols,
                                     std::int64_t batch);

  reference::GemmProblem problem_;
  std::size_t workspace_bytes_ = 0;
  Owned<cublasLtMatmulDescOpaque_t> description_;
  Layout first_, second_, result_;
  cublasLtMatmulAlgo_t chosen_{};
  std::size_t tried_ = 1;
};

}  // namespace foreplan::kernels::cuda
