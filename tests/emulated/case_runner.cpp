#include "tests/emulated/case_runner.hpp"

#include "kernels/operand_values.hpp"
#include "tests/cuda_emulator/engine.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace foreplan::kernels {
namespace {

/// Memory that ends, up to its 16-byte alignment, where an unmapped page begins: a vector access
/// beyond it stops the test. What lies between its end and that page is checked for writes.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t pages = (aligned + kAlignment + page - 1) / page * page;
    mapped_bytes_ = pages + page;
    mapped_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapped_ == MAP_FAILED || mprotect(mapped_ + pages, page, PROT_NONE) != 0) {
      throw std::runtime_error("no memory for a buffer");
    }
    start_ = mapped_ + pages - aligned;
    end_ = mapped_ + pages;
    std::memset(mapped_, kCanary, pages);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(mapped_, mapped_bytes_); }

  [[nodiscard]] std::byte* data() const { return start_; }
  [[nodiscard]] bool intact() const {
    const auto untouched = [](std::byte b) { return b == std::byte{kCanary}; };
    return std::all_of(mapped_, start_, untouched) && std::all_of(start_ + bytes_, end_, untouched);
  }

 private:
  static constexpr std::size_t kAlignment = 16;  // 256 on a device, but then tails would go unseen
  static constexpr unsigned char kCanary = 0xa5;
  std::size_t bytes_, mapped_bytes_ = 0;
  std::byte *mapped_ = nullptr, *start_ = nullptr, *end_ = nullptr;
};

/// The case's values and buffers.
class Run {
 public:
  Run(const Case& made, std::uint64_t seed) : case_(made) {
    for (const Operand& operand : made.operands) {
      initial_.push_back(initial_values(operand, ++seed));
      expected_.push_back(initial_.back());
    }
    std::vector<std::span<double>> spans(expected_.begin(), expected_.end());
    made.reference(spans);
  }

  /// Launches once with fresh inputs.
  testing::AssertionResult once() {
    buffers_.clear();
    std::vector<void*> pointers;
    for (std::size_t i = 0; i < case_.operands.size(); ++i) {
      buffers_.push_back(std::make_unique<GuardedBuffer>(case_.operands[i].bytes()));
      pointers.push_back(buffers_.back()->data());
      encode(initial_[i], case_.operands[i].storage, buffers_.back()->data());
    }
    const GuardedBuffer workspace(case_.workspace_bytes);
    try {
      case_.launch(pointers, workspace.data(), nullptr);
    } catch (const std::runtime_error& error) {
      return testing::AssertionFailure() << error.what();
    }
    if (!workspace.intact()) return testing::AssertionFailure() << "wrote outside of the workspace";
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (!buffers_[i]->intact()) {
        return testing::AssertionFailure() << "wrote outside of " << case_.operands[i].name;
      }
    }
    return testing::AssertionSuccess();
  }

  testing::AssertionResult agrees() const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Operand& operand = case_.operands[i];
      std::vector<double> got(initial_[i].size());
      decode(buffers_[i]->data(), operand.storage, got);
      const Agreement agreement = compare(operand, got, expected_[i]);
      if (agreement.worst > 1) return testing::AssertionFailure() << agreement.message;
    }
    return testing::AssertionSuccess();
  }

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::byte* const start = buffers_[i]->data();
      all.insert(all.end(), start, start + case_.operands[i].bytes());
    }
    return all;
  }

 private:
  const Case& case_;
  std::vector<std::vector<double>> initial_, expected_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};

using cuda_emulator::Order;
constexpr Order kOrders[] = {Order::forward, Order::backward, Order::shuffled, Order::unfair};

}  // namespace

testing::AssertionResult agrees_with_reference(const Kernel& kernel, const Question& question,
                                               std::uint64_t seed) {
  const Result<Case> made = kernel.make(question);
  if (!made) return testing::AssertionFailure() << to_text(made.error());
  Run run(*made, seed);
  for (const Order order : kOrders) {
    cuda_emulator::set_order(order);
    testing::AssertionResult result = run.once();
    if (result) result = run.agrees();
    if (!result) return result << " (thread order " << static_cast<int>(order) << ")";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult gives_the_same_bits_in_any_order(const Kernel& kernel,
                                                          const Question& question) {
  const Result<Case> made = kernel.make(question);
  if (!made) return testing::AssertionFailure() << to_text(made.error());
  Run run(*made, 1);
  std::vector<std::byte> first;
  for (const Order order : kOrders) {
    cuda_emulator::set_order(order);
    const testing::AssertionResult result = run.once();
    if (!result) return result;
    if (order == Order::forward) first = run.bytes();
    if (run.bytes() != first) {
      return testing::AssertionFailure()
             << "other bits in thread order " << static_cast<int>(order);
    }
  }
  return testing::AssertionSuccess();
}

std::string text(const Kernel& kernel, const Question& question) {
  std::string words = std::string(kernel.op) + "/" + std::string(kernel.variant) + " " +
                      std::string(name(question.pass));
  if (const auto* const rows = std::get_if<RowShape>(&question.shape)) {
    words += " " + std::to_string(rows->rows) + "x" + std::to_string(rows->cols);
  }
  words += " " + std::string(name(question.input)) + " to " + std::string(name(question.output));
  for (const auto& [key, value] : question.parameters) {
    words += " " + key + "=" + std::to_string(value);
  }
  return words;
}

}  // namespace foreplan::kernels
