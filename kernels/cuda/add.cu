// sum = residual + branch (+ branch), element by element, rounded once. 16 bytes of each tensor per
// thread and step; no shared memory. Bound by memory; the reached fraction is not measured here.

#include "kernels/cuda/flat.cuh"
#include "kernels/reference/cases.hpp"

namespace foreplan::kernels::cuda {
namespace {

template <class T>
__global__ void add(const T* residual, const T* branch1, const T* branch2, T* sum, std::int64_t n) {
  for_each_vector<kWide<T>>(n, [&]<int Width>(std::int64_t at) {
    float total[Width], term[Width];
    load<Width>(residual + at, total);
    load<Width>(branch1 + at, term);
    for (int i = 0; i < Width; ++i) total[i] += term[i];
    if (branch2 != nullptr) {
      load<Width>(branch2 + at, term);
      for (int i = 0; i < Width; ++i) total[i] += term[i];
    }
    store<Width>(sum + at, total);
  });
}

Result<Case> make(const Question& question) {
  auto made = reference::add(question);
  if (!made) return made;
  const std::int64_t n = made->operands[0].elements;
  made->algorithm = "flat, 16-byte vectors";
  made->launch = [n, type = question.input](std::span<void* const> buffers, void*, Stream stream) {
    with_float_type(type, [&]<class T>() {
      const T* const second = buffers.size() > 3 ? as<T>(buffers[2]) : nullptr;
      launch(add<T>, flat_grid(n, kWide<T>), kFlatThreads, 0, stream, as<T>(buffers[0]),
             as<T>(buffers[1]), second, as<T>(buffers.back()), n);
    });
  };
  return made;
}

}  // namespace

extern const Kernel kAdd{.op = "add",
                         .variant = "flat",
                         .summary = "residual plus one or two branches",
                         .parameters = reference::add_parameters(),
                         .make = make};

}  // namespace foreplan::kernels::cuda
