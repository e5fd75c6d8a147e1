#pragma once
// Emulation of kernels/cuda/ptx/turn.cuh. Blocks run one after another: a turn that only a block
// which has not started could pass on is reported as a deadlock.

#include "tests/cuda_emulator/engine.hpp"

namespace foreplan::kernels::cuda {

inline void wait_turn(const unsigned* counter, unsigned turn) {
  cuda_emulator::wait_until("its turn", [=] { return *counter == turn; });
}
inline void pass_turn(unsigned* counter, unsigned turn) { *counter = turn; }

}  // namespace foreplan::kernels::cuda
