// Softmax cross-entropy over large vocabularies: loss and log-sum-exp, then the gradient of the
// logits from them ("row"); and both at once over the logits ("fused"). A block of up to 512
// threads per row; up to 32768 bytes of logits stay in registers, longer rows are read twice by the
// fused form, the second time from L2 where that holds the rows in flight. Bound by memory; the
// reached fraction is not measured here.

#include "kernels/cuda/cross_entropy.cuh"

namespace foreplan::kernels::cuda {
namespace {

template <class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads)
    forward(const T* logits, const std::int64_t* targets, float* loss, float* lse,
            std::int64_t rows, int cols) {
  __shared__ float scratch[kWarp];
  const std::int64_t r = row_here();
  if (r >= rows) return;
  const Row<T, Width, Held> row(logits + r * cols, cols);
  const auto [maximum, sum] = softmax_statistics(row, scratch);
  if (threadIdx.x != 0) return;
  lse[r] = maximum + logf(sum);
  loss[r] = lse[r] - to_float(logits[r * cols + targets[r]]);
}

template <class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads)
    backward(const T* logits, const std::int64_t* targets, const float* lse, const float* dloss,
             T* dlogits, std::int64_t rows, int cols) {
  const std::int64_t r = row_here();
  if (r >= rows) return;
  const Row<T, Width, Held> row(logits + r * cols, cols);
  write_gradient(row, lse[r], 1.0F, targets[r], dloss[r], dlogits + r * cols);
}

template <class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads)
    fused(T* logits, const std::int64_t* targets, float* loss, std::int64_t rows, int cols) {
  __shared__ float scratch[kWarp];
  const std::int64_t r = row_here();
  if (r >= rows) return;
  const Row<T, Width, Held> row(logits + r * cols, cols);
  const auto [maximum, sum] = softmax_statistics(row, scratch);
  if (threadIdx.x == 0) {
    loss[r] = maximum + logf(sum) - to_float(logits[r * cols + targets[r]]);
  }
  // The target's logit has been read before its gradient takes its place.
  blockDim.x > kWarp ? __syncthreads() : __syncwarp();
  write_gradient(row, maximum, 1.0F / sum, targets[r], 1.0F / static_cast<float>(rows),
                 logits + r * cols);
}

struct Sizes {
  RowShape shape;
  RowPlan plan;
  Pass pass;
  [[nodiscard]] int cols() const { return static_cast<int>(shape.cols); }
  [[nodiscard]] unsigned grid() const { return plan.blocks(shape.rows); }
};
Sizes sizes_of(const Question& question, const Case& made) {
  const auto shape = std::get<RowShape>(question.shape);
  return {shape, plan_rows(shape.cols, bytes_per_element(made.operands[0].storage)), question.pass};
}

template <class T>
void launch_separate(const Sizes& n, std::span<void* const> b, Stream stream) {
  with_plan<T>(n.plan, [&]<int Width, int Held>() {
    if (n.pass == Pass::forward) {
      launch(forward<T, Width, Held>, n.grid(), n.plan.block, 0, stream, as<T>(b[0]),
             as<std::int64_t>(b[1]), as<float>(b[2]), as<float>(b[3]), n.shape.rows, n.cols());
    } else {
      launch(backward<T, Width, Held>, n.grid(), n.plan.block, 0, stream, as<T>(b[0]),
             as<std::int64_t>(b[1]), as<float>(b[2]), as<float>(b[3]), as<T>(b[4]), n.shape.rows,
             n.cols());
    }
  });
}

Result<Case> make_separate(const Question& question) {
  auto made = reference::cross_entropy(question);
  if (!made) return made;
  const Sizes n = sizes_of(question, *made);
  made->algorithm = n.plan.text();
  made->launch = [n, type = question.input](std::span<void* const> b, void*, Stream stream) {
    with_float_type(type, [&]<class T>() { launch_separate<T>(n, b, stream); });
  };
  return made;
}

Result<Case> make_fused(const Question& question) {
  auto made = reference::cross_entropy_fused(question);
  if (!made) return made;
  const Sizes n = sizes_of(question, *made);
  made->algorithm = n.plan.text();
  made->launch = [n, type = question.input](std::span<void* const> b, void*, Stream stream) {
    with_float_type(type, [&]<class T>() {
      with_plan<T>(n.plan, [&]<int Width, int Held>() {
        launch(fused<T, Width, Held>, n.grid(), n.plan.block, 0, stream, as<T>(b[0]),
               as<std::int64_t>(b[1]), as<float>(b[2]), n.shape.rows, n.cols());
      });
    });
  };
  return made;
}

}  // namespace

extern const Kernel kCrossEntropy{.op = "cross_entropy",
                                  .variant = "row",
                                  .summary = "loss and log-sum-exp, or the gradient from them",
                                  .parameters = {},
                                  .make = make_separate};
extern const Kernel kCrossEntropyFused{.op = "cross_entropy",
                                       .variant = "fused",
                                       .summary = "loss, and the gradient written over the logits",
                                       .parameters = {},
                                       .make = make_fused};

}  // namespace foreplan::kernels::cuda
