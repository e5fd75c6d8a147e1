// MoE router after its GEMM: scores (softmax or sigmoid) of fp32 logits, the best `topk`, their
// probabilities as a dense row and a byte map; backward finds the same choice again from the
// logits. A warp per token, 1 to 32 experts a lane in registers; the best are found one after
// another by comparisons over the warp, of equal logits the first. No shared memory. Bound by
// memory at many experts, by topk x 10 shuffles a token otherwise; neither is measured here.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/row.cuh"
#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"

namespace foreplan::kernels::cuda {
namespace {

constexpr unsigned kRowsPerBlock = 4;

struct Router {
  std::int64_t rows;
  int experts, topk;
  bool sigmoid, normalised;
};

/// Experts lane, lane + 32, ... of a token: its logits turned into scores, and which are chosen.
template <int PerLane>
struct Token {
  float score[PerLane];
  unsigned chosen = 0;  ///< bit i: expert lane + 32 i
  float chosen_sum = 0;

  [[nodiscard]] __device__ bool is_chosen(int i) const { return (chosen >> i & 1U) != 0; }
};

/// The best logit not yet taken: its place in the warp by value, then by expert.
template <int PerLane>
__device__ inline int best_expert(const float (&logit)[PerLane], unsigned taken, int lane) {
  float best = -INFINITY;
  int expert = 1 << 30;
  for (int i = 0; i < PerLane; ++i) {
    if ((taken >> i & 1U) == 0 && logit[i] > best) {
      best = logit[i];
      expert = lane + i * kWarp;
    }
  }
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best, bits);
    const int other_expert = __shfl_xor_sync(kAllLanes, expert, bits);
    if (other > best || (other == best && other_expert < expert)) {
      best = other;
      expert = other_expert;
    }
  }
  return expert;
}

template <int PerLane>
__device__ inline Token<PerLane> route_token(const float* logits, const Router& r, int lane) {
  float logit[PerLane];
  for (int i = 0; i < PerLane; ++i) {
    const int expert = lane + i * kWarp;
    logit[i] = expert < r.experts ? logits[expert] : -INFINITY;
  }
  Token<PerLane> token;
  for (int k = 0; k < r.topk; ++k) {
    const int expert = best_expert(logit, token.chosen, lane);
    if (expert % kWarp == lane) token.chosen |= 1U << (expert / kWarp);
  }
  float maximum = -INFINITY, sum = 0;
  for (int i = 0; i < PerLane; ++i) maximum = fmaxf(maximum, logit[i]);
  maximum = warp_max(maximum);
  for (int i = 0; i < PerLane; ++i) {
    token.score[i] =
        r.sigmoid ? __fdividef(1.0F, 1.0F + __expf(-logit[i])) : __expf(logit[i] - maximum);
    sum += token.score[i];
  }
  const float inverse = r.sigmoid ? 1.0F : 1.0F / warp_sum(sum);
  for (int i = 0; i < PerLane; ++i) {
    token.score[i] *= inverse;
    if (token.is_chosen(i)) token.chosen_sum += token.score[i];
  }
  token.chosen_sum = warp_sum(token.chosen_sum);
  return token;
}

template <int PerLane>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    forward(const float* logits, float* probabilities, std::uint8_t* chosen, Router r) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int lane = static_cast<int>(threadIdx.x);
  if (row >= r.rows) return;
  const auto token = route_token<PerLane>(logits + row * r.experts, r, lane);
  const float inverse = r.normalised ? 1.0F / token.chosen_sum : 1.0F;
  for (int i = 0; i < PerLane; ++i) {
    const int expert = lane + i * kWarp;
    if (expert >= r.experts) break;
    probabilities[row * r.experts + expert] = token.is_chosen(i) ? token.score[i] * inverse : 0.0F;
    chosen[row * r.experts + expert] = token.is_chosen(i) ? 1 : 0;
  }
}

/// With s the scores, C the chosen, S their sum and d the gradients of the probabilities:
///   ds_i = d_i / S - sum_C(d s) / S^2 (normalised) or d_i, for i in C; 0 elsewhere
///   softmax: dx_i = s_i (ds_i - sum(s ds)); sigmoid: dx_i = ds_i s_i (1 - s_i)
template <int PerLane>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    backward(const float* logits, const float* dprobabilities, float* dlogits, Router r) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int lane = static_cast<int>(threadIdx.x);
  if (row >= r.rows) return;
  const auto token = route_token<PerLane>(logits + row * r.experts, r, lane);
  float gradient[PerLane], weighted = 0, mean = 0;
  for (int i = 0; i < PerLane; ++i) {
    const int expert = lane + i * kWarp;
    gradient[i] = token.is_chosen(i) ? dprobabilities[row * r.experts + expert] : 0.0F;
    weighted += gradient[i] * token.score[i];
  }
  weighted = warp_sum(weighted);
  for (int i = 0; i < PerLane; ++i) {
    if (r.normalised && token.is_chosen(i)) {
      gradient[i] = (gradient[i] - weighted / token.chosen_sum) / token.chosen_sum;
    }
    mean += gradient[i] * token.score[i];
  }
  mean = r.sigmoid ? 0.0F : warp_sum(mean);
  for (int i = 0; i < PerLane; ++i) {
    const int expert = lane + i * kWarp;
    if (expert >= r.experts) break;
    const float s = token.score[i];
    dlogits[row * r.experts + expert] =
        r.sigmoid ? gradient[i] * s * (1.0F - s) : s * (gradient[i] - mean);
  }
}

template <class F>
void with_experts_per_lane(int experts, F f) {
  if (experts <= 32) return f.template operator()<1>();
  if (experts <= 64) return f.template operator()<2>();
  if (experts <= 128) return f.template operator()<4>();
  if (experts <= 256) return f.template operator()<8>();
  if (experts <= 512) return f.template operator()<16>();
  return f.template operator()<32>();
}

Result<Case> make(const Question& question) {
  auto made = reference::route(question);
  if (!made) return made;
  const auto shape = std::get<RowShape>(question.shape);
  const auto declared = reference::route_parameters();
  const auto value = [&](std::string_view name) {
    return reference::parameter_of(question, declared, name);
  };
  const Router r{shape.rows, static_cast<int>(shape.cols), static_cast<int>(value("topk")),
                 value("sigmoid") == 1, value("normalised") == 1};
  made->algorithm = "a warp per token";
  made->launch = [r, pass = question.pass](std::span<void* const> b, void*, Stream stream) {
    const dim3 block(kWarp, kRowsPerBlock);
    const auto grid = static_cast<unsigned>((r.rows + kRowsPerBlock - 1) / kRowsPerBlock);
    with_experts_per_lane(r.experts, [&]<int PerLane>() {
      if (pass == Pass::forward) {
        launch(forward<PerLane>, grid, block, 0, stream, as<float>(b[0]), as<float>(b[1]),
               as<std::uint8_t>(b[2]), r);
      } else {
        launch(backward<PerLane>, grid, block, 0, stream, as<float>(b[0]), as<float>(b[1]),
               as<float>(b[2]), r);
      }
    });
  };
  return made;
}

}  // namespace

extern const Kernel kRoute{
    .op = "route",
    .variant = "warp",
    .summary = "scores and the best experts of each token, and their gradient",
    .parameters = reference::route_parameters(),
    .make = make};

}  // namespace foreplan::kernels::cuda
