// Collectives of a program that was built without nccl.h.

#include "harness/targets/cuda/collectives.hpp"

namespace foreplan::harness::cuda {
namespace {
constexpr const char* kReason = "this program was built without nccl.h";
}

CollectiveLibrary collective_library() { return {.version = {}, .reason = kReason}; }
Result<std::unique_ptr<Collectives>> make_collectives(TcpRanks&) { return fail(kReason); }

}  // namespace foreplan::harness::cuda
