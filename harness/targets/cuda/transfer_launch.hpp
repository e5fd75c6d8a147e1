#pragma once
// Copies and fills by the driver: between pinned host memory and the device, and on the device.

#include "harness/targets/cuda/kernel_launch.hpp"

#include <memory>
#include <string_view>

namespace foreplan::harness::cuda {

/// Name of these among the variants of an operator.
inline constexpr std::string_view kDriverVariant = "driver";

/// True for "copy_to_device" and "copy_to_host" and, where the point asks for variant "driver", for
/// "copy", "fill" and "copy_strided".
[[nodiscard]] bool is_transfer(const Point& point, const kernels::Question& question);

class TransferLaunch final : public Runnable {
 public:
  /// Fails for shapes and parameters that are none, and where memory is short.
  static Result<std::unique_ptr<TransferLaunch>> make(const Bench& bench,
                                                      const kernels::Question& question,
                                                      const Point& point);

  [[nodiscard]] Seconds run(int launches) override;
  [[nodiscard]] Check check() override;
  [[nodiscard]] kernels::Work work() const override;
  [[nodiscard]] Identity identity() const override;

 private:
  enum class Kind : std::uint8_t { to_device, to_host, on_device, strided, fill };
  /// Rows of `width` bytes, in the source `pitch` bytes apart.
  struct Extent {
    std::size_t width = 0, rows = 0, pitch = 0;
    [[nodiscard]] std::size_t bytes() const { return width * rows; }
    [[nodiscard]] std::size_t source_bytes() const { return pitch * rows; }
  };
  TransferLaunch(const Bench& bench, Kind kind, Extent extent)
      : bench_(bench), kind_(kind), extent_(extent) {}
  static Result<Kind> kind_of(const kernels::Question& question);
  static Result<Extent> extent_of(const kernels::Question& question, Kind kind);
  void allocate(const Rotation& rotation);
  void enqueue(int i);

  Bench bench_;
  Kind kind_;
  Extent extent_;
  LaunchPlan plan_;
  int sets_ = 1;
  DeviceMemory device_source_, device_target_;
  PinnedMemory host_;
};

}  // namespace foreplan::harness::cuda
