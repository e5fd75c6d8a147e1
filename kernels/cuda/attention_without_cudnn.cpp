// The attention of attention_cudnn.cpp in a program that was built without its headers.

#include "kernels/cuda/attention_library.hpp"
#include "kernels/reference/attention_case.hpp"

namespace foreplan::kernels::cuda {
namespace {

constexpr const char* kReason = "this program was built without cudnn.h and cudnn_frontend.h";

Result<Case> make(const Question&) { return fail(kReason); }

const Kernel kAttentionCudnn{.op = "attention",
                             .variant = "cudnn",
                             .summary = "not in this program",
                             .parameters = reference::attention_parameters(),
                             .make = make};

}  // namespace

std::span<const Kernel* const> library_attention_kernels() {
  static constexpr const Kernel* kAll[] = {&kAttentionCudnn};
  return kAll;
}

AttentionLibrary attention_library() { return {.version = {}, .reason = kReason}; }

}  // namespace foreplan::kernels::cuda
