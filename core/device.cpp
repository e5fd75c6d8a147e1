#include "core/device.hpp"

#include "core/assert.hpp"

namespace foreplan {

std::optional<FlopsPerSecond> DeviceSpec::peak(DType dtype) const {
  switch (dtype) {
    case DType::fp32: return peak_fp32;
    case DType::tf32: return peak_tf32;
    case DType::fp16: return peak_fp16;
    case DType::bf16: return peak_bf16;
    case DType::fp8_e4m3:
    case DType::fp8_e5m2: return peak_fp8;
    case DType::fp4_e2m1: return peak_fp4;
    case DType::int8: return peak_int8;
  }
  FOREPLAN_ASSERT(false, "a DType outside the enum");
}

}  // namespace foreplan
