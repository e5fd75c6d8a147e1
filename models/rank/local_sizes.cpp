#include "models/rank/local_sizes.hpp"

#include "core/assert.hpp"

namespace foreplan::models {

std::int64_t share(std::int64_t whole, std::int64_t parts) {
  FOREPLAN_ASSERT(parts > 0 && whole % parts == 0, "a valid plan splits every dimension evenly");
  return whole / parts;
}

std::int64_t share_or_one(std::int64_t whole, std::int64_t parts) {
  return whole >= parts ? share(whole, parts) : 1;
}

namespace {

Rows text_rows(const ModelSpec& model, const RankShape& shape) {
  if (!model.diffusion) return {};
  const std::int64_t text = model.diffusion->text_tokens;
  if (!model.diffusion->joint_text) return {text * shape.micro_batch, text * shape.micro_batch};
  const std::int64_t all = share(text, shape.cp) * shape.micro_batch;
  return {all, shape.sequence_parallel ? share(all, shape.tp) : all};
}

}  // namespace

LocalSizes::LocalSizes(const ModelSpec& model, const RankShape& shape)
    : shape_(&shape),
      hidden_(model.hidden),
      tokens_(share(shape.sequence_length, shape.cp) * shape.micro_batch),
      sharded_tokens_(shape.sequence_parallel ? share(tokens_, shape.tp) : tokens_),
      text_(text_rows(model, shape)),
      joint_text_(model.diffusion && model.diffusion->joint_text),
      gathers_(shape.sequence_parallel && shape.tp > 1),
      element_(bytes_per_element(shape.activation)),
      operand_(is_fp8(shape.gemm) ? operand_bytes(shape.gemm) : element_) {}

Rows LocalSizes::rows_of(Stream stream) const {
  switch (stream) {
    case Stream::sample: return {shape_->micro_batch, shape_->micro_batch};
    case Stream::text: return text_;
    case Stream::latent: break;
  }
  if (!joint_text_) return token_rows();
  return {tokens_ - text_.all, sharded_tokens_ - text_.sharded};
}

DType LocalSizes::operand_type() const {
  if (shape_->gemm == GemmPrecision::nvfp4) return DType::fp4_e2m1;
  return fp8() ? DType::fp8_e4m3 : shape_->activation;
}

}  // namespace foreplan::models
