// Every registered kernel over rows on the device of this machine, against its reference in double
// precision: the small and odd shapes of the emulated tests, then shapes of real models.

#include "kernels/cuda/registry.hpp"
#include "kernels/operand_values.hpp"
#include "tests/emulated/questions.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace foreplan::kernels {
namespace {

/// Why nothing can run here; empty where a device is.
std::string no_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return std::string("no device: ") + cudaGetErrorString(status);
  return count > 0 ? "" : "no device";
}

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
  }
}

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) {
    check(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// First output that differs from the reference by more than it may; empty if none does.
std::string disagreement(const Case& made) {
  std::vector<std::vector<double>> expected;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  std::vector<void*> pointers;
  std::uint64_t seed = 0;
  for (const Operand& operand : made.operands) {
    expected.push_back(initial_values(operand, ++seed));
    std::vector<std::byte> bytes(operand.bytes());
    encode(expected.back(), operand.storage, bytes.data());
    buffers.push_back(std::make_unique<DeviceBuffer>(bytes.size()));
    pointers.push_back(buffers.back()->data());
    check(cudaMemcpy(pointers.back(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  const DeviceBuffer workspace(made.workspace_bytes);
  made.launch(pointers, workspace.data(), nullptr);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<std::span<double>> spans(expected.begin(), expected.end());
  made.reference(spans);
  for (std::size_t i = 0; i < made.operands.size(); ++i) {
    std::vector<std::byte> bytes(made.operands[i].bytes());
    check(cudaMemcpy(bytes.data(), pointers[i], bytes.size(), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    std::vector<double> got(expected[i].size());
    decode(bytes.data(), made.operands[i].storage, got);
    const Agreement agreement = compare(made.operands[i], got, expected[i]);
    if (agreement.worst > 1) return agreement.message;
  }
  return "";
}

/// The sizes of a layer of an 8-billion-parameter model, in small numbers of rows.
std::vector<Question> larger(const Kernel& kernel) {
  std::vector<Question> questions;
  for (Question question : small_questions(kernel.op, kernel.variant)) {
    const auto& rows = std::get<RowShape>(question.shape);
    if (question.input == DType::fp16 || rows.rows < 2 || rows.cols % 64 != 0) continue;
    const std::int64_t most = kernel.op == "route" ? 1024 : 16384;
    question.shape = RowShape{rows.rows * 60, std::min(most, rows.cols)};
    questions.push_back(question);
  }
  return questions;
}

class DeviceKernel : public testing::TestWithParam<const Kernel*> {
 protected:
  void SetUp() override {
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
  }
  static void expect_agreement(const std::vector<Question>& questions) {
    for (const Question& question : questions) {
      const auto made = GetParam()->make(question);
      ASSERT_TRUE(made.has_value()) << to_text(made.error());
      const auto& rows = std::get<RowShape>(question.shape);
      EXPECT_EQ(disagreement(*made), "")
          << name(question.pass) << " " << rows.rows << " x " << rows.cols << " "
          << name(question.input) << " to " << name(question.output);
    }
  }
};

TEST_P(DeviceKernel, AgreesWithItsReferenceAtSmallAndOddShapes) {
  expect_agreement(small_questions(GetParam()->op, GetParam()->variant));
}

TEST_P(DeviceKernel, AgreesWithItsReferenceAtLargerShapes) {
  expect_agreement(larger(*GetParam()));
}

std::vector<const Kernel*> row_kernels() {
  std::vector<const Kernel*> found;
  for (const Kernel* const kernel : cuda::kernels()) {
    if (!small_questions(kernel->op, kernel->variant).empty()) found.push_back(kernel);
  }
  return found;
}
std::string test_name(const testing::TestParamInfo<const Kernel*>& info) {
  return std::string(info.param->op) + "_" + std::string(info.param->variant);
}
INSTANTIATE_TEST_SUITE_P(Registry, DeviceKernel, testing::ValuesIn(row_kernels()), test_name);

}  // namespace
}  // namespace foreplan::kernels
