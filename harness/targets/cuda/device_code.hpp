#pragma once
// What the harness itself runs on the device: data, a stream held back, checks of collectives.

#include "harness/targets/cuda/exact_values.hpp"
#include "kernels/kernel.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace foreplan::harness::cuda {

/// Throws std::runtime_error that names the call and the error unless `status` is success.
void check(cudaError_t status, const char* call);

/// Fills as Operand::fill says, the same for the same seed. `listed` contents are read from
/// `table`, device memory with the contents as the operand's storage keeps them.
void fill(const kernels::Operand& operand, void* memory, const void* table, std::uint64_t seed,
          cudaStream_t stream);

/// Holds the stream until `*gate`, host memory that the device sees, is at least `ticket`, but no
/// longer than `kLongestHold`; then writes 1 to `*late`.
void hold(const volatile int* gate, int ticket, int* late, cudaStream_t stream);
inline constexpr std::int64_t kLongestHoldNanoseconds = 200'000'000;

/// Writes all of `memory`, so that nothing else stays in the last cache.
void flush(void* memory, std::size_t bytes, unsigned value, cudaStream_t stream);

/// Values of exact_values.hpp for this rank; and how many elements are not as expected, added to
/// `*wrong`.
void fill_exact(void* memory, std::int64_t elements, DType type, int rank, int ranks,
                cudaStream_t stream);
void count_wrong(const void* memory, std::int64_t elements, DType type, const Expected& expected,
                 unsigned long long* wrong, cudaStream_t stream);

}  // namespace foreplan::harness::cuda
