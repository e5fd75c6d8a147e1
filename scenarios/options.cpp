// The options of the command line and the scenario keys they stand for.

#include "scenarios/scenario.hpp"

#include <array>

namespace foreplan::scenarios {

std::span<const Option> options() {
  using enum Option::Type;
  static constexpr std::array kOptions = {
      Option{"--model", "model", text, "catalogue name or path of a config.json"},
      Option{"--cluster", "cluster", text, "8x8xH100 (nodes x GPUs x device), 64xH100, or a file"},
      Option{"--sequence-length", "training.sequence_length", text,
             "tokens per sequence, e.g. \"8192 tokens\""},
      Option{"--image", "training.image", text,
             "pixels of a diffusion transformer's samples, e.g. 1024x1024"},
      Option{"--frames", "training.frames", number, "frames of a sample; 1 = a picture"},
      Option{"--text-tokens", "training.text_tokens", number, "tokens of a sample's prompt"},
      Option{"--global-batch", "training.global_batch", text,
             "per step, e.g. \"4Mi tokens\", \"512 sequences\" or \"256 samples\""},
      Option{"--hidden-dropout", "training.hidden_dropout", text, "e.g. \"10 %\""},
      Option{"--attention-dropout", "training.attention_dropout", text, "e.g. \"10 %\""},
      Option{"--expert-imbalance", "training.expert_imbalance", number,
             "tokens at the busiest expert rank over the mean"},
      Option{"--framework", "framework", texts, "megatron-core, torchtitan, deepspeed, ..."},
      Option{"--precision", "precision", texts, "bf16, fp16, fp8, fp32"},
      Option{"--gpus", "search.gpus", numbers, "GPUs to use, at most the cluster's"},
      Option{"--tp", "search.tp", numbers, "tensor parallel degrees"},
      Option{"--pp", "search.pp", numbers, "pipeline parallel degrees"},
      Option{"--vpp", "search.vpp", numbers, "model chunks per pipeline stage"},
      Option{"--cp", "search.cp", numbers, "context parallel degrees"},
      Option{"--ep", "search.ep", numbers, "expert parallel degrees"},
      Option{"--etp", "search.etp", numbers, "tensor parallel degrees inside an expert"},
      Option{"--micro-batch", "search.micro_batch", numbers, "sequences per micro-batch"},
      Option{"--sequence-parallel", "search.sequence_parallel", flags, "true, false"},
      Option{"--dp-replicate", "search.dp_replicate", numbers,
             "copies of the sharded states (HSDP, optimizer instances); auto: one per node"},
      Option{"--zero", "search.zero", numbers,
             "ZeRO stages 0-3 (1: distributed optimizer, 3: FSDP)"},
      Option{"--recompute", "search.recompute", texts,
             "none, full, full:N, core_attn, layernorm, mlp, moe_act, ... joined by +"},
      Option{"--micro-batch-group", "search.micro_batch_group", numbers,
             "micro-batches that interleaved schedules deal to a chunk at a time; 0 = pp"},
      Option{"--offload-optimizer", "search.offload_optimizer", numbers,
             "shares of the optimizer state in host memory, 0 to 1"},
      Option{"--offload-parameters", "search.offload_parameters", numbers,
             "shares of sharded parameters in host memory, 0 to 1"},
      Option{"--offload-activations", "search.offload_activations", numbers,
             "shares of the layers whose activations are in host memory, 0 to 1"},
      Option{"--schedule", "search.schedule", texts,
             "1f1b, interleaved, gpipe, zb-h1, zb-h2, zbv, dualpipe, dualpipev"},
      Option{"--headroom", "constraints.memory_headroom", text,
             "share of device memory to leave free, e.g. \"3 %\""},
      Option{"--objective", "objective", text, "step_time, gpu_seconds or memory"},
      Option{
          "--profile", "profile", text,
          "best (shipped, or derived from a relative's), datasheet, calibrated or a profile file"},
      Option{"--top", "top", number, "plans to keep, 1-1000"},
      Option{"--hooks", "hooks", text,
             "Python file with objective, constraint, columns, on_plan (docs/hooks.md)"},
  };
  return kOptions;
}

}  // namespace foreplan::scenarios
