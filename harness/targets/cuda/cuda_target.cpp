#include "harness/targets/cuda/cuda_target.hpp"

#include "harness/session/outcome.hpp"
#include "harness/targets/cuda/candidates.hpp"
#include "harness/targets/cuda/device_facts.hpp"
#include "harness/targets/cuda/overlap_launch.hpp"
#include "harness/targets/cuda/transfer_launch.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/gemm_registry.hpp"
#include "kernels/cuda/registry.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace foreplan::harness::cuda {
namespace {

/// Our own kernels and the libraries'.
const std::vector<const kernels::Kernel*>& all_kernels() {
  static const std::vector<const kernels::Kernel*> kAll = [] {
    std::vector<const kernels::Kernel*> all;
    for (const auto group : {kernels::cuda::kernels(), kernels::cuda::gemm_kernels(),
                             kernels::cuda::library_attention_kernels()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return kAll;
}

std::size_t last_cache_bytes() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  return static_cast<std::size_t>(bytes);
}

}  // namespace

CudaTarget::CudaTarget(const CudaTargetOptions& options, std::unique_ptr<TcpRanks> ranks)
    : ranks_(std::move(ranks)) {
  check(cudaSetDevice(options.device), "cudaSetDevice");
  device_name_ = options.device_name.empty() ? cuda::device_name() : options.device_name;
  stream_ = make_stream();
  watch_ = std::make_unique<Stopwatch>(stream_.get());
  sensors_ = std::make_unique<Sensors>(bus_id());
  bench_ = {.stream = stream_.get(),
            .watch = watch_.get(),
            .seed = options.seed,
            .last_cache_bytes = last_cache_bytes()};
  if (ranks_->size() == 1) return;
  // All ranks have to have the library before any of them waits for the others in it.
  no_collectives_ = collective_library().reason;
  if (ranks_->maximum(no_collectives_.empty() ? 0 : 1) > 0) {
    if (no_collectives_.empty()) no_collectives_ = "another rank has no NCCL";
    return;
  }
  auto made = make_collectives(*ranks_);
  if (!made) throw std::runtime_error(to_text(made.error()));
  collectives_ = std::move(*made);
}

std::vector<std::pair<std::string, std::string>> CudaTarget::environment() const {
  results::BenchFacts facts = device_facts();
  for (auto& fact : sensors_->facts()) facts.push_back(std::move(fact));
  return facts;
}

bool CudaTarget::is_lost() const {
  cudaGetLastError();
  const bool lost = cudaDeviceSynchronize() != cudaSuccess;
  cudaGetLastError();
  return lost;
}

Result<std::unique_ptr<Runnable>> CudaTarget::prepare(const Point& point) {
  // What CUDA throws here is an answer as well: the other ranks are told by the caller.
  try {
    return prepare_any(point);
  } catch (const std::runtime_error& failure) {
    return fail(failure.what());
  }
}

CudaTarget::Made<Runnable> CudaTarget::prepare_any(const Point& point) {
  if (const auto* const overlap = std::get_if<OverlapPoint>(&point.question)) {
    return prepare_overlap(point, *overlap);
  }
  if (const auto* const collective = std::get_if<CollectivePoint>(&point.question)) {
    auto made = prepare_collective(point, *collective);
    if (!made) return fail(std::move(made.error()));
    return std::unique_ptr<Runnable>(std::move(*made));
  }
  const auto& question = std::get<kernels::Question>(point.question);
  if (is_transfer(point, question)) {
    auto made = TransferLaunch::make(bench_, question, point);
    if (!made) return fail(std::move(made.error()));
    return std::unique_ptr<Runnable>(std::move(*made));
  }
  auto made = prepare_kernel(point, question);
  if (!made) return fail(std::move(made.error()));
  return std::unique_ptr<Runnable>(std::move(*made));
}

CudaTarget::Made<KernelLaunch> CudaTarget::prepare_kernel(const Point& point,
                                                          const kernels::Question& question) {
  const auto found = candidates(all_kernels(), question, point.variant, point.selection);
  if (!found) return fail(found.error());
  Errors refused;
  for (const kernels::Kernel* const kernel : *found) {
    auto made = kernel->make(question);
    if (made) return KernelLaunch::make(bench_, *kernel, question, std::move(*made), point);
    for (Error& error : made.error()) {
      error.message = fmt::format("{}: {}", kernel->variant, error.message);
      refused.push_back(std::move(error));
    }
  }
  return fail(std::move(refused));
}

CudaTarget::Made<CollectiveLaunch> CudaTarget::prepare_collective(const Point& point,
                                                                  const CollectivePoint& what) {
  if (!collectives_) return fail(no_collectives_);
  const int size = ranks_of_group(what, ranks_->size());
  Communicator& group = collectives_->group(size, what.stride);
  return CollectiveLaunch::make(bench_, group, *ranks_, point, what);
}

CudaTarget::Made<Runnable> CudaTarget::prepare_overlap(const Point& point,
                                                       const OverlapPoint& what) {
  if (point.launch == LaunchMode::graph) return fail("an overlap is not recorded as a graph");
  // Buffers are rotated as for the kernel alone; a flush would stop the other stream.
  auto collective = prepare_collective(point, what.collective);
  if (!collective) return fail(std::move(collective.error()));
  auto kernel = prepare_kernel(point, what.kernel);
  if (!kernel) return fail(std::move(kernel.error()));
  return std::make_unique<OverlapLaunch>(bench_, *ranks_, std::move(*kernel),
                                         std::move(*collective), what.time_kernel);
}

}  // namespace foreplan::harness::cuda
