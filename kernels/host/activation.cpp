// GELU in its tanh form, SwiGLU and GeGLU, forward and backward. Bound by memory where the
// processor has wide vectors, by the exponential where not.

#include "kernels/host/rows.hpp"
#include "kernels/reference/cases.hpp"

namespace foreplan::kernels::host {
namespace {

using reference::ActivationForm;

struct Sizes {
  std::int64_t rows, cols;
  Storage storage;
  ActivationForm form;
  [[nodiscard]] bool gated() const { return form != ActivationForm::gelu; }
  [[nodiscard]] Gate gate() const {
    return form == ActivationForm::swiglu ? Gate::silu : Gate::gelu;
  }
  [[nodiscard]] std::int64_t input_cols() const { return gated() ? 2 * cols : cols; }
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(cols); }
};

void forward(const Sizes& s, std::span<void* const> b) {
  const Numbers x(b[0], s.storage), y(b[1], s.storage);
  in_parts(s.rows, s.rows * s.input_cols(), [&](std::int64_t first, std::int64_t last) {
    Rooms room(3, s.width());
    for (std::int64_t r = first; r < last; ++r) {
      const float* const gate = x.read(r * s.input_cols(), s.width(), room[0]);
      float* const out = y.place(r * s.cols, room[1]);
      activate(s.gate(), gate, out, s.width());
      if (s.gated()) {
        scaled_product(x.read(r * s.input_cols() + s.cols, s.width(), room[2]), out, 1, out,
                       s.width());
      }
      y.write(r * s.cols, s.width(), out);
    }
  });
}

void backward(const Sizes& s, std::span<void* const> b) {
  const Numbers x(b[0], s.storage), dy(b[1], s.storage), dx(b[2], s.storage);
  in_parts(s.rows, s.rows * s.input_cols(), [&](std::int64_t first, std::int64_t last) {
    Rooms room(5, s.width());
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t at = r * s.input_cols();
      const float* const gradient = dy.read(r * s.cols, s.width(), room[0]);
      float *const value = room[1], *const slope = room[2];
      activate_with_slope(s.gate(), x.read(at, s.width(), room[3]), value, slope, s.width());
      if (s.gated()) {
        scaled_product(slope, x.read(at + s.cols, s.width(), room[4]), 1, slope, s.width());
        scaled_product(value, gradient, 1, value, s.width());
        dx.write(at + s.cols, s.width(), value);
      }
      scaled_product(slope, gradient, 1, slope, s.width());
      dx.write(at, s.width(), slope);
    }
  });
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::activation(question));
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  const auto form = reference::parameter_of(question, reference::activation_parameters(), "form");
  const Sizes sizes{shape.rows, shape.cols, made->operands.front().storage,
                    static_cast<ActivationForm>(form)};
  made->algorithm = "vectorised loop";
  made->launch = [sizes, way = question.pass == Pass::forward ? forward : backward](
                     std::span<void* const> b, void*, Stream) { way(sizes, b); };
  return made;
}

}  // namespace

extern const Kernel kActivation{.op = "activation",
                                .variant = "loop",
                                .summary = "GELU, SwiGLU and GeGLU, and their gradients",
                                .parameters = reference::activation_parameters(),
                                .make = make};

}  // namespace foreplan::kernels::host
