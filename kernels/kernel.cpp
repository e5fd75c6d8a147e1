#include "kernels/kernel.hpp"

namespace foreplan::kernels {

std::size_t bytes_per_element(Storage storage) {
  switch (storage) {
    case Storage::int64: return 8;
    case Storage::fp32:
    case Storage::tf32:
    case Storage::int32: return 4;
    case Storage::fp16:
    case Storage::bf16: return 2;
    case Storage::fp8_e4m3:
    case Storage::fp8_e5m2:
    case Storage::uint8: return 1;
  }
  return 0;
}

}  // namespace foreplan::kernels
