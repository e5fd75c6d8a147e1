// The emulated device finds what a kernel may do wrong. Each body below is a small kernel.

#include "tests/cuda_emulator/cuda.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace foreplan::cuda_emulator {
namespace {

/// Message of what went wrong; empty if nothing did.
std::string fault_of(const std::function<void()>& body, dim3 block = 64, std::size_t shared = 256) {
  set_order(Order::forward);
  try {
    run_grid(2, block, shared, body);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  unsigned threads = 0, places = 0;
  run_grid(dim3(2, 3, 2), dim3(8, 4, 2), 0, [&] {
    ++threads;
    places += threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x +
              10000 * blockIdx.y + 100000 * blockIdx.z;
  });
  EXPECT_EQ(threads, 12U * 64);
  // Means of the six coordinates: 3.5, 1.5, 0.5, 0.5, 1, 0.5.
  EXPECT_EQ(places, static_cast<unsigned>(768 * (3.5 + 15 + 50 + 500 + 10000 + 50000)));
}

TEST(Emulator, AddsUpAWarpByShuffles) {
  EXPECT_EQ(fault_of([] {
              int sum = static_cast<int>(threadIdx.x % 32);
              for (int bits = 16; bits > 0; bits /= 2) {
                sum += __shfl_xor_sync(0xffffffffU, sum, bits);
              }
              if (sum != 31 * 32 / 2) fault("sum is " + std::to_string(sum));
              if (__ballot_sync(0xffffffffU, threadIdx.x % 2) != 0xaaaaaaaaU) fault("ballot");
            }),
            "");
}

TEST(Emulator, FindsThreadsThatMissABarrier) {
  const std::string message = fault_of([] {
    if (threadIdx.x < 5) return;
    __syncthreads();
  });
  EXPECT_THAT(message, testing::HasSubstr("deadlock in block (0, 0, 0)"));
  EXPECT_THAT(message, testing::HasSubstr("5 of 64 threads have returned"));
}

TEST(Emulator, FindsThreadsThatMeetInDifferentBarriers) {
  const std::string message = fault_of([] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  EXPECT_THAT(message, testing::HasSubstr("__syncthreads of line"));
}

TEST(Emulator, FindsWarpFunctionsThatLackALane) {
  EXPECT_THAT(fault_of([] {
                if (threadIdx.x % 32 != 7) __syncwarp();
              }),
              testing::HasSubstr("waits for lanes of its warp"));
  EXPECT_THAT(fault_of([] { __shfl_xor_sync(0x0000ffffU, 1, 1); }),
              testing::HasSubstr("outside its mask"));
}

TEST(Emulator, FindsWritesPastTheEndOfSharedMemory) {
  EXPECT_THAT(fault_of([] { shared_memory()[256] = std::byte{0}; }),
              testing::HasSubstr("past its end"));
}

TEST(Emulator, FindsMisalignedVectorAccesses) {
  alignas(16) static const float values[8] = {};
  EXPECT_THAT(fault_of([] { __ldg(reinterpret_cast<const float4*>(values + 1)); }),
              testing::HasSubstr("misaligned"));
}

TEST(Emulator, RefusesLaunchesThatNoDeviceTakes) {
  EXPECT_THAT(fault_of([] {}, 2048), testing::HasSubstr("2048 threads"));
  EXPECT_THAT(fault_of([] {}, 32, 300 * 1024), testing::HasSubstr("shared memory"));
}

TEST(Emulator, ShowsAMissingBarrierInOneOfItsOrders) {
  // Thread t reads what thread t + 1, or t - 1, has written, without waiting for it.
  const auto found = [](Order order, int neighbour) {
    set_order(order);
    int wrong = 0;
    run_grid(1, 64, 64 * sizeof(int), [&] {
      auto* const shared = reinterpret_cast<int*>(shared_memory());
      const auto me = static_cast<int>(threadIdx.x);
      shared[me] = me;
      const int other = (me + neighbour + 64) % 64;
      if (shared[other] != other) ++wrong;
    });
    return wrong > 1;
  };
  EXPECT_TRUE(found(Order::forward, 1));
  EXPECT_FALSE(found(Order::forward, -1));
  EXPECT_TRUE(found(Order::backward, -1));
}

TEST(Emulator, LetsWarpsRunAheadOfEachOtherWhereAsked) {
  // Between two uses of one word of shared memory a barrier is missing: the fast warp overwrites
  // it.
  const auto body = [] {
    auto* const word = reinterpret_cast<int*>(shared_memory());
    if (threadIdx.x == 0) *word = 1;
    __syncthreads();
    __syncwarp();
    if (threadIdx.x < 32 && *word != 1) fault("overwritten");
    __syncwarp();
    if (threadIdx.x == 32) *word = 2;
  };
  set_order(Order::forward);
  EXPECT_NO_THROW(run_grid(1, 64, 256, body));
  set_order(Order::unfair);
  EXPECT_THROW(run_grid(1, 64, 256, body), std::runtime_error);
}

}  // namespace
}  // namespace foreplan::cuda_emulator
