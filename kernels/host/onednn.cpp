#include "kernels/host/onednn.hpp"

#include "core/assert.hpp"

#include <omp.h>

#include <cstddef>
#include <stdexcept>
#include <unordered_map>

namespace foreplan::kernels::host {
namespace {

dnnl::stream& stream() {
  thread_local dnnl::stream own(cpu());
  return own;
}

void* scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> own;
  if (own.size() < bytes) own.resize(bytes);
  return own.data();
}

dnnl::memory::desc matrix(const GemmShape& shape, std::int64_t rows, std::int64_t cols,
                          Layout layout, Storage storage) {
  if (shape.batch == 1) {
    return {{rows, cols}, onednn_type(storage), {layout.row_step, layout.col_step}};
  }
  return {{shape.batch, rows, cols},
          onednn_type(storage),
          {layout.batch_step, layout.row_step, layout.col_step}};
}

/// A vector that is added to each row of each product.
dnnl::memory::desc shared_row(const GemmShape& shape, Storage storage) {
  const dnnl::memory::dims one_row =
      shape.batch == 1 ? dnnl::memory::dims{1, shape.n} : dnnl::memory::dims{1, 1, shape.n};
  const dnnl::memory::dims steps =
      shape.batch == 1 ? dnnl::memory::dims{shape.n, 1} : dnnl::memory::dims{shape.n, shape.n, 1};
  return {one_row, onednn_type(storage), steps};
}

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' +
         std::to_string(version->patch);
}

std::string onednn_instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return "sse41";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    default: return "other";
  }
}

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type onednn_type(Storage storage) {
  switch (storage) {
    case Storage::fp32: return dnnl::memory::data_type::f32;
    case Storage::bf16: return dnnl::memory::data_type::bf16;
    case Storage::fp16: return dnnl::memory::data_type::f16;
    case Storage::tf32:
    case Storage::fp8_e4m3:
    case Storage::fp8_e5m2:
    case Storage::int32:
    case Storage::int64:
    case Storage::uint8: break;
  }
  FOREPLAN_ASSERT(false, "a host kernel asks oneDNN for a type that it accepts");
}

dnnl::memory::desc dense(std::int64_t rows, std::int64_t cols, Storage storage) {
  return {{rows, cols}, onednn_type(storage), dnnl::memory::format_tag::ab};
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Operation::Operation(dnnl::primitive primitive, const dnnl::primitive_desc_base& description,
                     Layouts layouts)
    : primitive_(std::move(primitive)),
      layouts_(std::move(layouts)),
      scratch_(description.scratchpad_desc()),
      algorithm_(description.impl_info_str()) {}

void Operation::run(std::initializer_list<void*> data) const {
  std::unordered_map<int, dnnl::memory> arguments;
  auto layout = layouts_.begin();
  for (void* const buffer : data) {
    arguments.emplace(layout->first, dnnl::memory(layout->second, cpu(), buffer));
    ++layout;
  }
  arguments.emplace(DNNL_ARG_SCRATCHPAD,
                    dnnl::memory(scratch_, cpu(), scratch(scratch_.get_size())));
  primitive_.execute(stream(), arguments);
  stream().wait();
}

Operation product(const Product& wanted) {
  const GemmShape& s = wanted.shape;
  dnnl::primitive_attr attr = attributes();
  dnnl::post_ops after;
  if (wanted.accumulates) after.append_sum(1);
  if (wanted.gelu) after.append_eltwise(1, dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
  attr.set_post_ops(after);
  const dnnl::memory::desc a = matrix(s, s.m, s.k, wanted.a, wanted.input);
  const dnnl::memory::desc b = matrix(s, s.k, s.n, wanted.b, wanted.input);
  const dnnl::memory::desc c = matrix(s, s.m, s.n, wanted.c, wanted.output);
  const dnnl::memory::desc bias = shared_row(s, wanted.output);
  Operation::Layouts layouts{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}};
  if (wanted.bias) layouts.emplace_back(DNNL_ARG_BIAS, bias);
  layouts.emplace_back(DNNL_ARG_DST, c);
  try {
    const dnnl::matmul::desc what =
        wanted.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc description(what, attr, cpu());
    return {dnnl::matmul(description), description, std::move(layouts)};
  } catch (const dnnl::error& failure) {
    throw std::runtime_error(std::string("oneDNN has no such product here: ") + failure.what());
  }
}

SingleThreadScope::SingleThreadScope() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
SingleThreadScope::~SingleThreadScope() { omp_set_num_threads(threads_); }

}  // namespace foreplan::kernels::host
