// LayerNorm forward and backward (Ba et al. 2016) through oneDNN, whose gains and biases are fp32
// and whose statistic is the variance: both are converted around it. Bound by memory.

#include "kernels/host/onednn.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/reference/cases.hpp"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

namespace foreplan::kernels::host {
namespace {

constexpr auto kEpsilon = static_cast<float>(reference::kNormEpsilon);
const auto kFlags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

struct Layouts {
  dnnl::memory::desc x, row_numbers, weights;
  std::int64_t rows, cols;
  Storage storage;
};

Layouts layouts_of(RowShape shape, Storage storage) {
  const auto vector = [](std::int64_t n) {
    return dnnl::memory::desc({n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
  };
  return {dense(shape.rows, shape.cols, storage),
          vector(shape.rows),
          vector(shape.cols),
          shape.rows,
          shape.cols,
          storage};
}

dnnl::layer_normalization_forward::primitive_desc forward_description(const Layouts& at) {
  return {{dnnl::prop_kind::forward_training, at.x, at.row_numbers, kEpsilon, kFlags},
          attributes(),
          cpu()};
}

/// Calls body with `weights` as fp32 numbers.
template <class Body>
void with_fp32(void* weights, const Layouts& at, const Body& body) {
  thread_local std::vector<float> room;
  room.resize(static_cast<std::size_t>(at.cols));
  const Numbers numbers(weights, at.storage);
  body(const_cast<float*>(numbers.read(0, room.size(), room.data())));
}

void add_forward(Case& made, const Layouts& at) {
  const auto description = forward_description(at);
  const auto operation =
      std::make_shared<const Operation>(dnnl::layer_normalization_forward(description), description,
                                        Operation::Layouts{{DNNL_ARG_SRC, at.x},
                                                           {DNNL_ARG_SCALE, at.weights},
                                                           {DNNL_ARG_SHIFT, at.weights},
                                                           {DNNL_ARG_DST, at.x},
                                                           {DNNL_ARG_MEAN, at.row_numbers},
                                                           {DNNL_ARG_VARIANCE, at.row_numbers}});
  made.algorithm = operation->algorithm();
  made.launch = [operation, at](std::span<void* const> b, void*, Stream) {
    thread_local std::vector<float> bias;
    bias.resize(static_cast<std::size_t>(at.cols));
    const float* const shift = Numbers(b[2], at.storage).read(0, bias.size(), bias.data());
    with_fp32(b[1], at, [&](float* gain) {
      operation->run({b[0], gain, const_cast<float*>(shift), b[3], b[4], b[5]});
    });
    auto* const statistic = static_cast<float*>(b[5]);
    for (std::int64_t r = 0; r < at.rows; ++r) {
      statistic[r] = 1 / std::sqrt(statistic[r] + kEpsilon);
    }
  };
}

void add_backward(Case& made, const Layouts& at) {
  const dnnl::layer_normalization_backward::primitive_desc description(
      {dnnl::prop_kind::backward, at.x, at.x, at.row_numbers, kEpsilon, kFlags}, attributes(),
      cpu(), forward_description(at));
  // The shift is in no gradient, but the library asks for one.
  const auto operation = std::make_shared<const Operation>(
      dnnl::layer_normalization_backward(description), description,
      Operation::Layouts{{DNNL_ARG_SRC, at.x},
                         {DNNL_ARG_SCALE, at.weights},
                         {DNNL_ARG_SHIFT, at.weights},
                         {DNNL_ARG_DIFF_DST, at.x},
                         {DNNL_ARG_MEAN, at.row_numbers},
                         {DNNL_ARG_VARIANCE, at.row_numbers},
                         {DNNL_ARG_DIFF_SRC, at.x},
                         {DNNL_ARG_DIFF_SCALE, at.weights},
                         {DNNL_ARG_DIFF_SHIFT, at.weights}});
  made.algorithm = operation->algorithm();
  made.launch = [operation, at](std::span<void* const> b, void*, Stream) {
    thread_local std::vector<float> variance;
    variance.resize(static_cast<std::size_t>(at.rows));
    const auto* const rstd = static_cast<const float*>(b[4]);
    for (std::size_t r = 0; r < variance.size(); ++r) {
      variance[r] = 1 / (rstd[r] * rstd[r]) - kEpsilon;
    }
    with_fp32(b[1], at, [&](float* gain) {
      operation->run({b[0], gain, gain, b[2], b[3], variance.data(), b[5], b[6], b[7]});
    });
  };
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::layer_norm(question));
  if (!made) return made;
  const Layouts at = layouts_of(std::get<RowShape>(question.shape), made->operands.front().storage);
  try {
    question.pass == Pass::forward ? add_forward(*made, at) : add_backward(*made, at);
  } catch (const dnnl::error& failure) {
    return fail(std::string("oneDNN has no such norm here: ") + failure.what());
  }
  return made;
}

}  // namespace

extern const Kernel kLayerNorm{.op = "layer_norm",
                               .variant = "onednn",
                               .summary = "LayerNorm with gain and bias, and its gradients",
                               .parameters = {},
                               .make = make};

}  // namespace foreplan::kernels::host
