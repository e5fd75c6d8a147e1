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

LocalSizes::LocalSizes(const ModelSpec& model, const RankShape& shape)
    : shape_(&shape),
      hidden_(model.hidden),
      tokens_(share(shape.sequence_length, shape.cp) * shape.micro_batch),
      sharded_tokens_(shape.sequence_parallel ? share(tokens_, shape.tp) : tokens_),
      gathers_(shape.sequence_parallel && shape.tp > 1),
      element_(bytes_per_element(shape.activation)),
      operand_(is_fp8(shape.gemm) ? operand_bytes(shape.gemm) : element_) {}

DType LocalSizes::operand_type() const {
  if (shape_->gemm == GemmPrecision::nvfp4) return DType::fp4_e2m1;
  return fp8() ? DType::fp8_e4m3 : shape_->activation;
}

}  // namespace foreplan::models
