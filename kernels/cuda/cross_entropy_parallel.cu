// Cross-entropy where every rank holds a part of the vocabulary: maximum, sum of exponentials and
// the target's logit of this rank's columns (the sum is scaled to the common maximum while it is
// reduced over the ranks), then loss and gradient from the reduced numbers. A block of up to 512
// threads per row, logits read once in each step. Bound by memory; the reached fraction is not
// measured here.

#include "kernels/cuda/cross_entropy.cuh"
#include "kernels/reference/row_question.hpp"

namespace foreplan::kernels::cuda {
namespace {

template <class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads)
    local_statistics(const T* logits, const std::int64_t* targets, float* maxima, float* sums,
                     float* target_logits, std::int64_t rows, int cols, std::int64_t first) {
  __shared__ float scratch[kWarp];
  const std::int64_t r = row_here();
  if (r >= rows) return;
  const Row<T, Width, Held> row(logits + r * cols, cols);
  const auto [maximum, sum] = softmax_statistics(row, scratch);
  if (threadIdx.x != 0) return;
  const std::int64_t target = targets[r] - first;
  maxima[r] = maximum;
  sums[r] = sum;
  target_logits[r] = target >= 0 && target < cols ? to_float(logits[r * cols + target]) : 0.0F;
}

template <class T>
struct Finish {
  const T* logits;
  const std::int64_t* targets;
  const float *maxima, *sums, *target_logits;
  float* loss;
  T* dlogits;
  std::int64_t rows, first;
  int cols;
};
template <class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads) finish(Finish<T> p) {
  const std::int64_t r = row_here();
  if (r >= p.rows) return;
  const Row<T, Width, Held> row(p.logits + r * p.cols, p.cols);
  const float maximum = p.maxima[r], sum = p.sums[r];
  if (threadIdx.x == 0) p.loss[r] = maximum + logf(sum) - p.target_logits[r];
  write_gradient(row, maximum, 1.0F / sum, p.targets[r] - p.first,
                 1.0F / static_cast<float>(p.rows), p.dlogits + r * p.cols);
}

struct Sizes {
  RowShape shape;
  RowPlan plan;
  std::int64_t first;
};

template <class T>
void launch_statistics(const Sizes& n, std::span<void* const> b, Stream stream) {
  with_plan<T>(n.plan, [&]<int Width, int Held>() {
    launch(local_statistics<T, Width, Held>, n.plan.blocks(n.shape.rows), n.plan.block, 0, stream,
           as<T>(b[0]), as<std::int64_t>(b[1]), as<float>(b[2]), as<float>(b[3]), as<float>(b[4]),
           n.shape.rows, static_cast<int>(n.shape.cols), n.first);
  });
}

template <class T>
void launch_finish(const Sizes& n, std::span<void* const> b, Stream stream) {
  const Finish<T> p{.logits = as<T>(b[0]),
                    .targets = as<std::int64_t>(b[1]),
                    .maxima = as<float>(b[2]),
                    .sums = as<float>(b[3]),
                    .target_logits = as<float>(b[4]),
                    .loss = as<float>(b[5]),
                    .dlogits = as<T>(b[6]),
                    .rows = n.shape.rows,
                    .first = n.first,
                    .cols = static_cast<int>(n.shape.cols)};
  with_plan<T>(n.plan, [&]<int Width, int Held>() {
    launch(finish<T, Width, Held>, n.plan.blocks(n.shape.rows), n.plan.block, 0, stream, p);
  });
}

Result<Case> make(const Question& question) {
  auto made = reference::cross_entropy_parallel(question);
  if (!made) return made;
  const auto shape = std::get<RowShape>(question.shape);
  const std::int64_t rank =
      reference::parameter_of(question, reference::cross_entropy_parallel_parameters(), "rank");
  const Sizes n{shape, plan_rows(shape.cols, bytes_per_element(made->operands[0].storage)),
                rank * shape.cols};
  made->algorithm = n.plan.text();
  made->launch = [n, type = question.input, forward = question.pass == Pass::forward](
                     std::span<void* const> b, void*, Stream stream) {
    with_float_type(type, [&]<class T>() {
      forward ? launch_statistics<T>(n, b, stream) : launch_finish<T>(n, b, stream);
    });
  };
  return made;
}

}  // namespace

extern const Kernel kCrossEntropyParallel{
    .op = "cross_entropy",
    .variant = "vocabulary_parallel",
    .summary = "one rank's part of the vocabulary: statistics, or loss and gradient",
    .parameters = reference::cross_entropy_parallel_parameters(),
    .make = make};

}  // namespace foreplan::kernels::cuda
