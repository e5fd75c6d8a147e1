// Cast to FP8 with one scale for the tensor: from before (delayed scaling; the maximum is noted for
// the next time), or from the tensor's own maximum, which a first kernel finds. See quantize.cuh.

#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/quantize.cuh"

#include <algorithm>

namespace foreplan::kernels::cuda {
namespace {

constexpr int kMostPartials = 2048;

/// Largest magnitude of what each block reads.
template <class T>
__global__ void __launch_bounds__(kFlatThreads)
    partial_amax(const T* x, std::int64_t n, float* partials) {
  __shared__ float scratch[kWarp];
  float amax = 0;
  for_each_vector<kWide<T>>(n, [&]<int Width>(std::int64_t at) {
    float v[Width];
    load<Width>(x + at, v);
    for (int i = 0; i < Width; ++i) amax = fmaxf(amax, fabsf(v[i]));
  });
  amax = row_max(amax, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = amax;
}

template <class T>
Cast<T> cast_of(RowShape shape, std::span<void* const> b) {
  Cast<T> p{};
  p.x = as<T>(b[0]);
  p.rows = shape.rows;
  p.cols = shape.cols;
  return p;
}

Result<Case> make_given(const Question& question) {
  auto made = reference::quantize_tensor(question);
  if (!made) return made;
  made->algorithm = "128 x 128 tiles";
  made->launch = [shape = std::get<RowShape>(question.shape), in = question.input,
                  out = question.output](std::span<void* const> b, void*, Stream stream) {
    with_half_type(in, [&]<class T>() {
      Cast<T> p = cast_of<T>(shape, b);
      p.scale = as<float>(b[1]);
      p.amax = as<float>(b[2]);
      p.q = as<std::uint8_t>(b[3]);
      p.transposed = b.size() > 4 ? as<std::uint8_t>(b[4]) : nullptr;
      launch_cast<Scale::given>(p, out, stream);
    });
  };
  return made;
}

Result<Case> make_current(const Question& question) {
  auto made = reference::quantize_current(question);
  if (!made) return made;
  made->algorithm = "maximum first, then 128 x 128 tiles";
  made->workspace_bytes = kMostPartials * sizeof(float);
  made->launch = [shape = std::get<RowShape>(question.shape), in = question.input,
                  out = question.output](std::span<void* const> b, void* workspace, Stream stream) {
    with_half_type(in, [&]<class T>() {
      const std::int64_t n = shape.rows * shape.cols;
      const unsigned blocks = std::min<unsigned>(flat_grid(n, kWide<T>), kMostPartials);
      auto* const partials = as<float>(workspace);
      launch(partial_amax<T>, blocks, kFlatThreads, 0, stream, as<T>(b[0]), n, partials);
      Cast<T> p = cast_of<T>(shape, b);
      p.q = as<std::uint8_t>(b[1]);
      p.transposed = b.size() > 3 ? as<std::uint8_t>(b[2]) : nullptr;
      p.amax = as<float>(b.back());
      p.partials = partials;
      p.partial_count = static_cast<int>(blocks);
      launch_cast<Scale::current>(p, out, stream);
    });
  };
  return made;
}

}  // namespace

extern const Kernel kQuantizeTensor{.op = "quantize",
                                    .variant = "tensor",
                                    .summary = "cast to FP8 with a given scale, noting the maximum",
                                    .parameters = reference::quantize_parameters(),
                                    .make = make_given};
extern const Kernel kQuantizeCurrent{.op = "quantize",
                                     .variant = "tensor_current",
                                     .summary = "cast to FP8 scaled by the tensor's own maximum",
                                     .parameters = reference::quantize_parameters(),
                                     .make = make_current};

}  // namespace foreplan::kernels::cuda
