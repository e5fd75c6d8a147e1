#pragma once
// Keys of DeepSpeed's JSON: what each one means to a prediction.

#include "scenarios/jobs/settings.hpp"

namespace foreplan::scenarios {

/// Of the configuration itself (DeepSpeed 0.19.8, deepspeed/runtime/config.py and the classes that
/// it reads).
[[nodiscard]] std::span<const Setting> deepspeed_settings();

/// Of the Hugging Face Trainer's arguments around it (transformers 5, TrainingArguments); others
/// change nothing here or are told.
[[nodiscard]] std::span<const Setting> trainer_settings();

}  // namespace foreplan::scenarios
