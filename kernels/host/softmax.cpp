// Softmax over rows and its gradient through oneDNN. Bound by memory.

#include "kernels/host/onednn.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/reference/softmax_case.hpp"

#include <memory>
#include <string>

namespace foreplan::kernels::host {
namespace {

constexpr int kAlongCols = 1;

Operation operation_of(Pass pass, const dnnl::memory::desc& layout) {
  using Forward = dnnl::softmax_v2_forward;
  using Backward = dnnl::softmax_v2_backward;
  constexpr auto kPlain = dnnl::algorithm::softmax_accurate;
  const Forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kPlain, layout, layout, kAlongCols}, attributes(), cpu());
  if (pass == Pass::forward) {
    return {Forward(forward), forward, {{DNNL_ARG_SRC, layout}, {DNNL_ARG_DST, layout}}};
  }
  const Backward::primitive_desc backward({kPlain, layout, layout, layout, kAlongCols},
                                          attributes(), cpu(), forward);
  return {Backward(backward),
          backward,
          {{DNNL_ARG_DST, layout}, {DNNL_ARG_DIFF_DST, layout}, {DNNL_ARG_DIFF_SRC, layout}}};
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::softmax(question));
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  try {
    const auto operation = std::make_shared<const Operation>(
        operation_of(question.pass, dense(shape.rows, shape.cols, made->operands.front().storage)));
    made->algorithm = operation->algorithm();
    if (question.pass == Pass::forward) {
      made->launch = [operation](std::span<void* const> b, void*, Stream) {
        operation->run({b[0], b[1]});
      };
    } else {
      made->launch = [operation](std::span<void* const> b, void*, Stream) {
        operation->run({b[0], b[1], b[2]});
      };
    }
  } catch (const dnnl::error& failure) {
    return fail(std::string("oneDNN has no such softmax here: ") + failure.what());
  }
  return made;
}

}  // namespace

extern const Kernel kSoftmax{.op = "softmax",
                             .variant = "onednn",
                             .summary = "softmax over rows, and its gradient",
                             .parameters = {},
                             .make = make};

}  // namespace foreplan::kernels::host
