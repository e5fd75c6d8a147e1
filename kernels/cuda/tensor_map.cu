// Tensor maps for TMA, by the driver's own function, which the run-time library finds: nothing
// links against the driver.

#include "kernels/cuda/ptx/tensor_copy.cuh"

#if !defined(FOREPLAN_CUDA_EMULATED)

namespace foreplan::kernels::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kFirstVersion = 12000;  // of CUDA that has the function
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kFirstVersion,
                                         cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion(cuTensorMapEncodeTiled)");
  if (result != cudaDriverEntryPointSuccess || function == nullptr) {
    throw std::runtime_error("cuTensorMapEncodeTiled: the driver does not have it");
  }
  return reinterpret_cast<Encode>(function);
}

}  // namespace

TensorMap encode_tensor_map(const TensorDescription& tensor) {
  static const Encode encode = find_encode();
  // Innermost dimension first; strides in bytes, without the innermost.
  const cuuint64_t sizes[3] = {tensor.dim, tensor.heads, tensor.tokens};
  const cuuint64_t strides[2] = {tensor.dim * 2, tensor.heads * tensor.dim * 2};
  const cuuint32_t box[3] = {64, 1, tensor.box_tokens};
  const cuuint32_t steps[3] = {1, 1, 1};
  TensorMap map;
  const CUresult status = encode(
      &map, tensor.is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3,
      const_cast<void*>(tensor.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw std::runtime_error("cuTensorMapEncodeTiled: CUresult " + std::to_string(status) +
                             " for a tensor of " + std::to_string(tensor.tokens) + " tokens, " +
                             std::to_string(tensor.heads) + " heads, dimension " +
                             std::to_string(tensor.dim));
  }
  return map;
}

}  // namespace foreplan::kernels::cuda

#endif
