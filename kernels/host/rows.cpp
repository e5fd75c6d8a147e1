#include "kernels/host/rows.hpp"

#include <string>
#include <utility>

namespace foreplan::kernels::host {

Result<Case> in_host_types(Result<Case> made) {
  if (!made) return made;
  for (const Operand& operand : made->operands) {
    switch (operand.storage) {
      case Storage::fp32:
      case Storage::bf16:
      case Storage::int32:
      case Storage::int64: continue;
      case Storage::tf32:
      case Storage::fp16:
      case Storage::fp8_e4m3:
      case Storage::fp8_e5m2:
      case Storage::uint8: break;
    }
    return fail("on a host, " + std::string(operand.name) + " has to be fp32 or bf16");
  }
  return made;
}

ColumnSums::ColumnSums(std::size_t vectors, std::size_t cols)
    : vectors_(vectors), cols_(cols), of_thread_(static_cast<std::size_t>(omp_get_max_threads())) {}

float* ColumnSums::own(std::size_t which) {
  auto& sums = of_thread_[static_cast<std::size_t>(omp_get_thread_num())];
  if (sums.empty()) sums.resize(vectors_ * cols_);
  return sums.data() + which * cols_;
}

void ColumnSums::total(std::size_t which, float* to) const {
  std::memset(to, 0, cols_ * sizeof(float));
  for (const auto& sums : of_thread_) {
    if (!sums.empty()) accumulate(sums.data() + which * cols_, to, cols_);
  }
}

}  // namespace foreplan::kernels::host
