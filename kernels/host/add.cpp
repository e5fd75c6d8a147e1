// Residual adds of one or two branches through oneDNN. Bound by memory.

#include "kernels/host/onednn.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/reference/cases.hpp"

#include <memory>
#include <string>

namespace foreplan::kernels::host {
namespace {

/// residual + branch1 (+ branch2 as a post-operation, in the same pass over memory).
Operation operation_of(const dnnl::memory::desc& layout, bool two_branches) {
  constexpr auto kAddition = dnnl::algorithm::binary_add;
  dnnl::primitive_attr attr = attributes();
  Operation::Layouts layouts{{DNNL_ARG_SRC_0, layout}, {DNNL_ARG_SRC_1, layout}};
  if (two_branches) {
    dnnl::post_ops after;
    after.append_binary(kAddition, layout);
    attr.set_post_ops(after);
    layouts.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, layout);
  }
  layouts.emplace_back(DNNL_ARG_DST, layout);
  const dnnl::binary::primitive_desc description({kAddition, layout, layout, layout}, attr, cpu());
  return {dnnl::binary(description), description, std::move(layouts)};
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::add(question));
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  const bool two = made->operands.size() == 4;
  try {
    const auto operation = std::make_shared<const Operation>(
        operation_of(dense(shape.rows, shape.cols, made->operands.front().storage), two));
    made->algorithm = operation->algorithm();
    made->launch = [operation, two](std::span<void* const> b, void*, Stream) {
      two ? operation->run({b[0], b[1], b[2], b[3]}) : operation->run({b[0], b[1], b[2]});
    };
  } catch (const dnnl::error& failure) {
    return fail(std::string("oneDNN has no such sum here: ") + failure.what());
  }
  return made;
}

}  // namespace

extern const Kernel kAdd{.op = "add",
                         .variant = "onednn",
                         .summary = "residual plus one or two branches",
                         .parameters = reference::add_parameters(),
                         .make = make};

}  // namespace foreplan::kernels::host
