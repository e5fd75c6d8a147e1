// AdamW with fp32 states, and the norm of the gradients. Bound by memory.

#include "kernels/host/rows.hpp"
#include "kernels/reference/cases.hpp"

#include <cmath>

namespace foreplan::kernels::host {
namespace {

AdamSettings settings() {
  using A = reference::AdamW;
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(A::kRate),  f(A::kBeta1),       f(A::kBeta2),      f(A::kEpsilon),
          f(A::kDecay), f(A::kCorrection1), f(A::kCorrection2)};
}

struct Types {
  std::int64_t elements;
  Storage gradient, parameter;
};

void adamw_launch(const Types& t, std::span<void* const> b) {
  const Numbers gradient(b[0], t.gradient), parameter(b[4], t.parameter);
  auto *const master = static_cast<float*>(b[1]), *const m = static_cast<float*>(b[2]),
              *const v = static_cast<float*>(b[3]);
  in_parts(t.elements, t.elements, [&](std::int64_t from, std::int64_t to) {
    Rooms room(1, static_cast<std::size_t>(kPiece));
    in_pieces(from, to, [&](std::int64_t first, std::size_t n) {
      adamw_step(settings(), gradient.read(first, n, room[0]),
                 {.master = master + first, .m = m + first, .v = v + first}, n);
      parameter.write(first, n, master + first);
    });
  });
}

void norm_launch(const Types& t, std::span<void* const> b) {
  const Numbers gradient(b[0], t.gradient);
  double sum = 0;
  in_parts(t.elements, t.elements, [&](std::int64_t from, std::int64_t to) {
    Rooms room(1, static_cast<std::size_t>(kPiece));
    double own = 0;
    in_pieces(from, to, [&](std::int64_t first, std::size_t n) {
      const float* const g = gradient.read(first, n, room[0]);
      own += static_cast<double>(sum_of_products(g, g, n));
    });
#pragma omp atomic
    sum += own;
  });
  *static_cast<float*>(b[1]) = static_cast<float>(std::sqrt(sum));
}

Result<Case> make(const Question& question, Result<Case> made,
                  void (*launch)(const Types&, std::span<void* const>)) {
  made = in_host_types(std::move(made));
  if (!made) return made;
  const Types types{made->operands.front().elements, made->operands.front().storage,
                    reference::storage_of(question.output)};
  made->algorithm = "vectorised loop";
  made->launch = [types, launch](std::span<void* const> b, void*, Stream) { launch(types, b); };
  return made;
}

Result<Case> make_adamw(const Question& question) {
  const auto bits = reference::parameter_of(question, reference::adamw_parameters(), "state_bits");
  if (bits != 32) {
    return fail("optimizer: on a host, states are fp32: state_bits = 32", {.key = "state_bits"});
  }
  return make(question, reference::adamw(question), adamw_launch);
}

Result<Case> make_grad_norm(const Question& question) {
  return make(question, reference::grad_norm(question), norm_launch);
}

}  // namespace

extern const Kernel kAdamw{.op = "optimizer",
                           .variant = "loop",
                           .summary = "AdamW over fp32 master, moments and any gradient",
                           .parameters = reference::adamw_parameters(),
                           .make = make_adamw};
extern const Kernel kGradNorm{.op = "grad_norm",
                              .variant = "loop",
                              .summary = "norm of all gradients",
                              .parameters = {},
                              .make = make_grad_norm};

}  // namespace foreplan::kernels::host
