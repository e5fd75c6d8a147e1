// Collectives through NCCL, loaded at run time.

#include "core/assert.hpp"
#include "harness/targets/cuda/collectives.hpp"
#include "harness/targets/cuda/device_code.hpp"
#include "kernels/dynamic_library.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

namespace foreplan::harness::cuda {
namespace {

#define FOREPLAN_NCCL_FUNCTIONS(F) \
  F(ncclGetVersion)                \
  F(ncclGetErrorString)            \
  F(ncclGetUniqueId)               \
  F(ncclCommInitRank)              \
  F(ncclCommSplit)                 \
  F(ncclCommAbort)                 \
  F(ncclCommDestroy)               \
  F(ncclCommGetAsyncError)         \
  F(ncclGroupStart)                \
  F(ncclGroupEnd)                  \
  F(ncclAllReduce)                 \
  F(ncclAllGather)                 \
  F(ncclReduceScatter)             \
  F(ncclBroadcast)                 \
  F(ncclSend)                      \
  F(ncclRecv)

constexpr kernels::LibraryName kName{
    .file = "libnccl.so.2", .variable = "FOREPLAN_NCCL", .wheel_folder = "nvidia/nccl/lib"};

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

class Nccl {
 public:
  static const Nccl& instance() {
    static const Nccl library;
    return library;
  }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] std::string version() const {
    int code = 0;
    return why_not_.empty() && ncclGetVersion(&code) == ncclSuccess ? version_text(code) : "";
  }
  void check(ncclResult_t status, const char* call) const {
    if (status == ncclSuccess || status == ncclInProgress) return;
    throw std::runtime_error(fmt::format("{}: {}", call, ncclGetErrorString(status)));
  }
#define FOREPLAN_DECLARE(function) decltype(::function)* function = nullptr;
  FOREPLAN_NCCL_FUNCTIONS(FOREPLAN_DECLARE)
#undef FOREPLAN_DECLARE

 private:
  Nccl() : library_(kName), why_not_(library_.why_not()) {
    if (!library_.loaded()) return;
    std::string missing;
#define FOREPLAN_FIND(function)            \
  if (!library_.find(function, #function)) \
    missing += std::string{missing.empty() ? "" : ", "} + #function;
    FOREPLAN_NCCL_FUNCTIONS(FOREPLAN_FIND)
#undef FOREPLAN_FIND
    // ncclCommSplit came with 2.18.
    if (!missing.empty()) why_not_ = library_.file() + " is older than 2.18: it has no " + missing;
  }
  kernels::DynamicLibrary library_;
  std::string why_not_;
};

ncclDataType_t data_type(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::tf32: return ncclFloat32;
    case DType::fp16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    case DType::fp8_e4m3:
    case DType::fp8_e5m2: return ncclUint8;  // moved, never added
    case DType::fp4_e2m1:
    case DType::int8: break;
  }
  FOREPLAN_ASSERT(false, "no collective is measured in this type");
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(ncclComm_t comm, int rank, int size) : comm_(comm), rank_(rank), size_(size) {}
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() override {
    if (comm_ != nullptr) nccl_.ncclCommDestroy(comm_);
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] ncclComm_t handle() const { return comm_; }

  void enqueue(CollectiveKind kind, const void* send, void* receive, std::int64_t elements,
               DType type, cudaStream_t stream) override {
    if (comm_ == nullptr) throw std::runtime_error("NCCL: this communicator was given up");
    const auto all = static_cast<std::size_t>(elements);
    const std::size_t part = all / static_cast<std::size_t>(size_);
    const ncclDataType_t data = data_type(type);
    switch (kind) {
      case CollectiveKind::all_reduce:
        return nccl_.check(nccl_.ncclAllReduce(send, receive, all, data, ncclSum, comm_, stream),
                           "ncclAllReduce");
      case CollectiveKind::all_gather:
        return nccl_.check(nccl_.ncclAllGather(send, receive, part, data, comm_, stream),
                           "ncclAllGather");
      case CollectiveKind::reduce_scatter:
        return nccl_.check(
            nccl_.ncclReduceScatter(send, receive, part, data, ncclSum, comm_, stream),
            "ncclReduceScatter");
      case CollectiveKind::broadcast:
        return nccl_.check(nccl_.ncclBroadcast(send, receive, all, data, 0, comm_, stream),
                           "ncclBroadcast");
      case CollectiveKind::all_to_all: {
        const std::size_t bytes = part * bytes_per_element_of(type);
        nccl_.check(nccl_.ncclGroupStart(), "ncclGroupStart");
        for (int peer = 0; peer < size_; ++peer) {
          const std::size_t at = static_cast<std::size_t>(peer) * bytes;
          exchange(static_cast<const std::byte*>(send) + at, peer,
                   static_cast<std::byte*>(receive) + at, peer, part, data, stream);
        }
        return nccl_.check(nccl_.ncclGroupEnd(), "ncclGroupEnd");
      }
      case CollectiveKind::send_recv:
        nccl_.check(nccl_.ncclGroupStart(), "ncclGroupStart");
        exchange(send, (rank_ + 1) % size_, receive, (rank_ + size_ - 1) % size_, all, data,
                 stream);
        return nccl_.check(nccl_.ncclGroupEnd(), "ncclGroupEnd");
    }
  }

  void wait(cudaStream_t stream) override {
    constexpr std::chrono::seconds kPatience{60};
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      const cudaError_t status = cudaStreamQuery(stream);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
      ncclResult_t failure = ncclSuccess;
      nccl_.ncclCommGetAsyncError(comm_, &failure);
      if (failure != ncclSuccess && failure != ncclInProgress)
        give_up(nccl_.ncclGetErrorString(failure));
      if (std::chrono::steady_clock::now() > deadline) give_up("nothing happens any more");
      std::this_thread::yield();
    }
  }

 private:
  static std::size_t bytes_per_element_of(DType type) {
    return static_cast<std::size_t>(bytes_per_element(type));
  }
  void exchange(const void* send, int to, void* receive, int from, std::size_t count,
                ncclDataType_t data, cudaStream_t stream) const {
    nccl_.check(nccl_.ncclSend(send, count, data, to, comm_, stream), "ncclSend");
    nccl_.check(nccl_.ncclRecv(receive, count, data, from, comm_, stream), "ncclRecv");
  }
  [[noreturn]] void give_up(const std::string& why) {
    nccl_.ncclCommAbort(std::exchange(comm_, nullptr));
    throw std::runtime_error("NCCL: " + why);
  }

  const Nccl& nccl_ = Nccl::instance();
  ncclComm_t comm_;
  int rank_, size_;
};

class NcclCollectives final : public Collectives {
 public:
  explicit NcclCollectives(TcpRanks& ranks) : ranks_(ranks) {
    ncclUniqueId id{};
    if (ranks.rank() == 0) nccl_.check(nccl_.ncclGetUniqueId(&id), "ncclGetUniqueId");
    ranks.from_root(std::as_writable_bytes(std::span(&id, 1)));
    ncclComm_t made = nullptr;
    nccl_.check(nccl_.ncclCommInitRank(&made, ranks.size(), id, ranks.rank()), "ncclCommInitRank");
    world_ = std::make_unique<NcclCommunicator>(made, ranks.rank(), ranks.size());
  }

  Communicator& group(int group_size, int stride) override {
    if (group_size == ranks_.size()) return *world_;
    auto& found = groups_[{group_size, stride}];
    if (found) return *found;
    // A block of size * stride ranks holds `stride` groups, each of every stride-th rank.
    const int block = ranks_.rank() / (group_size * stride);
    const int inside = ranks_.rank() % (group_size * stride);
    const int color = block * stride + inside % stride, place = inside / stride;
    ncclComm_t made = nullptr;
    nccl_.check(nccl_.ncclCommSplit(world_->handle(), color, place, &made, nullptr),
                "ncclCommSplit");
    found = std::make_unique<NcclCommunicator>(made, place, group_size);
    return *found;
  }

 private:
  const Nccl& nccl_ = Nccl::instance();
  TcpRanks& ranks_;
  std::unique_ptr<NcclCommunicator> world_;
  std::map<std::pair<int, int>, std::unique_ptr<NcclCommunicator>> groups_;
};

}  // namespace

CollectiveLibrary collective_library() {
  const Nccl& library = Nccl::instance();
  return {.version = library.version(), .reason = library.why_not()};
}

Result<std::unique_ptr<Collectives>> make_collectives(TcpRanks& ranks) {
  if (const auto library = collective_library(); !library.reason.empty())
    return fail(library.reason);
  return std::make_unique<NcclCollectives>(ranks);
}

}  // namespace foreplan::harness::cuda
