#pragma once
// One reader per `model_type` (`_class_name` of a diffusion transformer). A new family is one
// function here and one row in hf_config.cpp.

#include "models/hf/config_reader.hpp"
#include "models/model_spec.hpp"

namespace foreplan::models::hf {

/// Fills the architecture of `model`; name, family and source are set by the caller.
using FamilyReader = void (*)(const ConfigReader& config, ModelSpec& model);

// llama_like.cpp: pre-norm decoders with rotary positions and (mostly) gated feed-forward blocks.
void read_llama(const ConfigReader& config, ModelSpec& model);
void read_mistral(const ConfigReader& config, ModelSpec& model);
void read_qwen2(const ConfigReader& config, ModelSpec& model);
void read_qwen3(const ConfigReader& config, ModelSpec& model);
void read_gemma(const ConfigReader& config, ModelSpec& model);
void read_gemma2(const ConfigReader& config, ModelSpec& model);
void read_gemma3_text(const ConfigReader& config, ModelSpec& model);
void read_phi3(const ConfigReader& config, ModelSpec& model);
void read_nemotron(const ConfigReader& config, ModelSpec& model);

// mixture_of_experts.cpp
void read_mixtral(const ConfigReader& config, ModelSpec& model);
void read_qwen2_moe(const ConfigReader& config, ModelSpec& model);
void read_qwen3_moe(const ConfigReader& config, ModelSpec& model);
void read_gpt_oss(const ConfigReader& config, ModelSpec& model);
void read_deepseek_v2(const ConfigReader& config, ModelSpec& model);
void read_deepseek_v3(const ConfigReader& config, ModelSpec& model);

// hybrid.cpp: state spaces, alone or between attention and feed-forward layers.
void read_mamba2(const ConfigReader& config, ModelSpec& model);
void read_nemotron_h(const ConfigReader& config, ModelSpec& model);

// gpt_like.cpp: GPT-2 and its descendants.
void read_gpt2(const ConfigReader& config, ModelSpec& model);
void read_megatron_gpt(const ConfigReader& config, ModelSpec& model);
void read_gpt_neox(const ConfigReader& config, ModelSpec& model);
void read_gptj(const ConfigReader& config, ModelSpec& model);
void read_opt(const ConfigReader& config, ModelSpec& model);
void read_phi(const ConfigReader& config, ModelSpec& model);
void read_bloom(const ConfigReader& config, ModelSpec& model);
void read_mpt(const ConfigReader& config, ModelSpec& model);
void read_falcon(const ConfigReader& config, ModelSpec& model);

// diffusion_images.cpp, diffusion_videos.cpp: diffusion transformers, by their `_class_name`.
void read_dit(const ConfigReader& config, ModelSpec& model);
void read_pixart(const ConfigReader& config, ModelSpec& model);
void read_sd3(const ConfigReader& config, ModelSpec& model);
void read_flux(const ConfigReader& config, ModelSpec& model);
void read_hunyuan_video(const ConfigReader& config, ModelSpec& model);
void read_wan(const ConfigReader& config, ModelSpec& model);
void read_cogvideox(const ConfigReader& config, ModelSpec& model);
void read_cosmos(const ConfigReader& config, ModelSpec& model);

}  // namespace foreplan::models::hf
