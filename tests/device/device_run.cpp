#include "tests/device/device_run.hpp"

#include "kernels/operand_values.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>

namespace foreplan::kernels {
namespace {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
  }
}

struct Free {
  void operator()(void* memory) const { cudaFree(memory); }
};
using Memory = std::unique_ptr<void, Free>;
Memory allocate(std::size_t bytes) {
  void* made = nullptr;
  check(cudaMalloc(&made, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  return Memory(made);
}

/// Buffers of a case, filled.
class Run {
 public:
  explicit Run(const Case& made) : case_(made), workspace_(allocate(made.workspace_bytes)) {
    for (const Operand& operand : made.operands) {
      values_.push_back(initial_values(operand, values_.size() + 1));
      memory_.push_back(allocate(operand.bytes()));
    }
  }

  void launch() {
    std::vector<void*> buffers;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const Operand& operand = case_.operands[i];
      std::vector<std::byte> bytes(operand.bytes());
      encode(values_[i], operand.storage, bytes.data());
      buffers.push_back(memory_[i].get());
      check(cudaMemcpy(buffers.back(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
            "cudaMemcpy");
    }
    case_.launch(buffers, workspace_.get(), nullptr);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  [[nodiscard]] std::vector<std::byte> bytes(std::size_t operand) const {
    std::vector<std::byte> found(case_.operands[operand].bytes());
    check(cudaMemcpy(found.data(), memory_[operand].get(), found.size(), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return found;
  }
  [[nodiscard]] const std::vector<std::vector<double>>& initial() const { return values_; }

 private:
  const Case& case_;
  Memory workspace_;
  std::vector<std::vector<double>> values_;
  std::vector<Memory> memory_;
};

}  // namespace

std::string no_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return std::string("no device: ") + cudaGetErrorString(status);
  return count > 0 ? "" : "no device";
}

std::string disagreement(const Case& made) {
  Run run(made);
  run.launch();
  auto expected = run.initial();
  std::vector<std::span<double>> spans(expected.begin(), expected.end());
  made.reference(spans);
  for (std::size_t i = 0; i < made.operands.size(); ++i) {
    std::vector<double> got(expected[i].size());
    decode(run.bytes(i).data(), made.operands[i].storage, got);
    const Agreement agreement = compare(made.operands[i], got, expected[i]);
    if (agreement.worst > 1) return agreement.message;
  }
  return "";
}

std::vector<std::vector<std::byte>> repeated(const Case& made, int launches) {
  Run run(made);
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(launches));
  for (auto& outputs : all) {
    run.launch();
    for (std::size_t i = 0; i < made.operands.size(); ++i) {
      const auto bytes = run.bytes(i);
      outputs.insert(outputs.end(), bytes.begin(), bytes.end());
    }
  }
  return all;
}

}  // namespace foreplan::kernels
