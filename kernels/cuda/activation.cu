// GELU (tanh form), SwiGLU and GeGLU, forward and backward, fp32 inside. Gated inputs are rows of
// [gate | up]. A thread does one 16-byte vector of a row; no shared memory. Bound by memory: about
// 20 operations an element against 4 to 10 bytes; the reached fraction is not measured here.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"

namespace foreplan::kernels::cuda {
namespace {

using Form = reference::ActivationForm;

struct Unit {
  float value, slope;
};
/// 1 / (1 + exp(-x)) without overflow: the exponential of a large number is infinite, its inverse
/// 0.
__device__ inline float logistic(float x) { return __fdividef(1.0F, 1.0F + __expf(-x)); }

__device__ inline Unit silu(float x) {
  const float s = logistic(x);
  return {x * s, s * (1.0F + x * (1.0F - s))};
}
/// 0.5 (1 + tanh(u)) is logistic(2u).
__device__ inline Unit gelu(float x) {
  constexpr float kRoot = 0.7978845608F;  // sqrt(2 / pi)
  const float square = x * x;
  const float s = logistic(2.0F * kRoot * x * (1.0F + 0.044715F * square));
  const float inner = kRoot * (1.0F + 3.0F * 0.044715F * square);
  return {x * s, s + 2.0F * x * s * (1.0F - s) * inner};
}
template <Form form>
__device__ inline Unit unit(float x) {
  return form == Form::swiglu ? silu(x) : gelu(x);
}

template <Form form, class T, int Width>
__global__ void forward(const T* x, T* y, std::int64_t rows, int cols, unsigned tiles) {
  constexpr bool kGated = form != Form::gelu;
  const auto [row, vector] = tile_place(tiles);
  const int col = vector * Width;
  if (row >= rows || col >= cols) return;
  const T* const from = x + row * cols * (kGated ? 2 : 1) + col;
  float gate[Width], up[Width];
  load<Width>(from, gate);
  if constexpr (kGated) load<Width>(from + cols, up);
  for (int i = 0; i < Width; ++i) gate[i] = unit<form>(gate[i]).value * (kGated ? up[i] : 1.0F);
  store<Width>(y + row * cols + col, gate);
}

template <Form form, class T, int Width>
__global__ void backward(const T* x, const T* dy, T* dx, std::int64_t rows, int cols,
                         unsigned tiles) {
  constexpr bool kGated = form != Form::gelu;
  const auto [row, vector] = tile_place(tiles);
  const int col = vector * Width;
  if (row >= rows || col >= cols) return;
  const std::int64_t at = row * cols * (kGated ? 2 : 1) + col;
  float gate[Width], up[Width], gradient[Width];
  load<Width>(x + at, gate);
  if constexpr (kGated) load<Width>(x + at + cols, up);
  load<Width>(dy + row * cols + col, gradient);
  for (int i = 0; i < Width; ++i) {
    const Unit u = unit<form>(gate[i]);
    gate[i] = gradient[i] * u.slope * (kGated ? up[i] : 1.0F);
    up[i] = gradient[i] * u.value;
  }
  store<Width>(dx + at, gate);
  if constexpr (kGated) store<Width>(dx + at + cols, up);
}

template <class F>
void with_form(Form form, F f) {
  switch (form) {
    case Form::gelu: return f.template operator()<Form::gelu>();
    case Form::swiglu: return f.template operator()<Form::swiglu>();
    case Form::geglu: return f.template operator()<Form::geglu>();
  }
}

struct Launch {
  RowShape shape;
  Form form;
  Pass pass;

  template <Form kForm, class T, int Width>
  void run(std::span<void* const> b, Stream stream) const {
    const TilePlan plan = plan_tiles(shape.rows, shape.cols / Width);
    const int cols = static_cast<int>(shape.cols);
    if (pass == Pass::forward) {
      launch(forward<kForm, T, Width>, plan.grid, plan.block, 0, stream, as<T>(b[0]), as<T>(b[1]),
             shape.rows, cols, plan.tiles);
    } else {
      launch(backward<kForm, T, Width>, plan.grid, plan.block, 0, stream, as<T>(b[0]), as<T>(b[1]),
             as<T>(b[2]), shape.rows, cols, plan.tiles);
    }
  }
};

Result<Case> make(const Question& question) {
  auto made = reference::activation(question);
  if (!made) return made;
  const auto form = static_cast<Form>(
      reference::parameter_of(question, reference::activation_parameters(), "form"));
  const Launch l{std::get<RowShape>(question.shape), form, question.pass};
  made->algorithm = "a vector per thread";
  made->launch = [l, type = question.input](std::span<void* const> b, void*, Stream stream) {
    with_float_type(type, [&]<class T>() {
      with_form(l.form, [&]<Form kForm>() {
        l.shape.cols % kWide<T> == 0 ? l.run<kForm, T, kWide<T>>(b, stream)
                                     : l.run<kForm, T, 1>(b, stream);
      });
    });
  };
  return made;
}

}  // namespace

extern const Kernel kActivation{.op = "activation",
                                .variant = "tile",
                                .summary = "GELU, SwiGLU or GeGLU, and its gradient",
                                .parameters = reference::activation_parameters(),
                                .make = make};

}  // namespace foreplan::kernels::cuda
