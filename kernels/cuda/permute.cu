// Token copies to their places by expert and back. Spreading reads a token once and writes it topk
// times; gathering reads the copies and writes their sum, fp32 inside, in a fixed order. With
// weights, the way back multiplies; its backward also yields the weights' gradients, one warp or
// block per token. A thread does one 16-byte vector. Bound by memory; the reached fraction is not
// measured here.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/row.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"

namespace foreplan::kernels::cuda {
namespace {

template <class T>
struct Move {
  const T* from;
  const std::int32_t* map;  ///< row of copy c of token t: map[t * topk + c]
  const float* weights;     ///< of the same copies, or null
  const T* copies;          ///< weighted backward: what was multiplied
  T* to;
  float* dweights;
  std::int64_t tokens;
  int topk, cols;
};

template <class T, int Width>
__global__ void spread(Move<T> p, unsigned tiles) {
  const auto [token, vector] = tile_place(tiles);
  const int col = vector * Width;
  if (token >= p.tokens || col >= p.cols) return;
  float values[Width];
  load<Width>(p.from + token * p.cols + col, values);
  for (int c = 0; c < p.topk; ++c) {
    const std::int64_t row = p.map[token * p.topk + c];
    store<Width>(p.to + row * p.cols + col, values);
  }
}

template <class T, int Width>
__global__ void gather(Move<T> p, unsigned tiles) {
  const auto [token, vector] = tile_place(tiles);
  const int col = vector * Width;
  if (token >= p.tokens || col >= p.cols) return;
  float sum[Width] = {};
  for (int c = 0; c < p.topk; ++c) {
    const std::int64_t copy = token * p.topk + c;
    const float weight = p.weights != nullptr ? p.weights[copy] : 1.0F;
    float values[Width];
    load<Width>(p.from + static_cast<std::int64_t>(p.map[copy]) * p.cols + col, values);
    for (int i = 0; i < Width; ++i) sum[i] += weight * values[i];
  }
  store<Width>(p.to + token * p.cols + col, sum);
}

/// dcopy = weight * dtoken and dweight = dtoken . copy; the token's gradient is read once.
template <class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads) weighted_backward(Move<T> p) {
  __shared__ float scratch[kWarp];
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (token >= p.tokens) return;
  const Row<T, Width, Held> dtoken(p.from + token * p.cols, p.cols);
  for (int c = 0; c < p.topk; ++c) {
    const std::int64_t copy = token * p.topk + c;
    const std::int64_t at = static_cast<std::int64_t>(p.map[copy]) * p.cols;
    const float weight = p.weights[copy];
    float product = 0;
    dtoken.visit([&](int, int col, float(&v)[Width]) {
      float values[Width];
      load<Width>(p.copies + at + col, values);
      for (int i = 0; i < Width; ++i) {
        product += v[i] * values[i];
        v[i] *= weight;
      }
      store<Width>(p.to + at + col, v);
    });
    product = row_sum(product, scratch);
    if (threadIdx.x == 0) p.dweights[copy] = product;
  }
}

struct Sizes {
  std::int64_t tokens, cols;
  int topk;
};
Sizes sizes_of(const Question& question, const std::vector<Parameter>& declared) {
  const auto shape = std::get<RowShape>(question.shape);
  const std::int64_t topk = reference::parameter_of(question, declared, "topk");
  return {shape.rows / topk, shape.cols, static_cast<int>(topk)};
}

enum class Direction : std::uint8_t { spread, gather };

template <class T>
Move<T> move_of(const Sizes& n, std::span<void* const> b) {
  Move<T> p{};
  p.from = as<T>(b[0]);
  p.map = as<std::int32_t>(b[1]);
  p.to = as<T>(b.back());
  p.tokens = n.tokens;
  p.topk = n.topk;
  p.cols = static_cast<int>(n.cols);
  return p;
}

template <class T>
void launch_move(const Sizes& n, Direction direction, const Move<T>& p, Stream stream) {
  const auto run = [&]<int Width>() {
    const TilePlan plan = plan_tiles(n.tokens, n.cols / Width);
    launch(direction == Direction::spread ? spread<T, Width> : gather<T, Width>, plan.grid,
           plan.block, 0, stream, p, plan.tiles);
  };
  n.cols % kWide<T> == 0 ? run.template operator()<kWide<T>>() : run.template operator()<1>();
}

/// Buffers: from, map (, weights), to.
Result<Case> with_move(Result<Case> made, const Question& question, const Sizes& n,
                       Direction direction) {
  made->algorithm = "a vector per thread";
  made->launch = [n, direction, type = question.input](std::span<void* const> b, void*,
                                                       Stream stream) {
    with_float_type(type, [&]<class T>() {
      Move<T> p = move_of<T>(n, b);
      if (b.size() == 4) p.weights = as<float>(b[2]);
      launch_move(n, direction, p, stream);
    });
  };
  return made;
}

/// Buffers: dtokens, map, weights, copies, dcopies, dweights.
Result<Case> with_weighted_backward(Result<Case> made, const Question& question, const Sizes& n) {
  const RowPlan plan = plan_rows(n.cols, bytes_per_element(made->operands[0].storage));
  made->algorithm = plan.text();
  made->launch = [n, plan, type = question.input](std::span<void* const> b, void*, Stream stream) {
    with_float_type(type, [&]<class T>() {
      Move<T> p = move_of<T>(n, b);
      p.weights = as<float>(b[2]);
      p.copies = as<T>(b[3]);
      p.to = as<T>(b[4]);
      p.dweights = as<float>(b[5]);
      with_plan<T>(plan, [&]<int Width, int Held>() {
        launch(weighted_backward<T, Width, Held>, plan.blocks(n.tokens), plan.block, 0, stream, p);
      });
    });
  };
  return made;
}

Result<Case> make_permute(const Question& question) {
  auto made = reference::permute(question);
  if (!made) return made;
  const Sizes n = sizes_of(question, reference::permute_parameters());
  return with_move(std::move(made), question, n,
                   question.pass == Pass::forward ? Direction::spread : Direction::gather);
}

Result<Case> make_unpermute(const Question& question) {
  auto made = reference::unpermute(question);
  if (!made) return made;
  const Sizes n = sizes_of(question, reference::unpermute_parameters());
  if (question.pass == Pass::forward) {
    return with_move(std::move(made), question, n, Direction::gather);
  }
  const bool weighted = made->operands.size() > 3;
  return weighted ? with_weighted_backward(std::move(made), question, n)
                  : with_move(std::move(made), question, n, Direction::spread);
}

}  // namespace

extern const Kernel kPermute{.op = "permute",
                             .variant = "map",
                             .summary = "tokens to their copies by expert, and their gradient",
                             .parameters = reference::permute_parameters(),
                             .make = make_permute};
extern const Kernel kUnpermute{
    .op = "unpermute",
    .variant = "map",
    .summary = "copies back to (weighted) sums by token, and their gradient",
    .parameters = reference::unpermute_parameters(),
    .make = make_unpermute};

}  // namespace foreplan::kernels::cuda
