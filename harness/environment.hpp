#pragma once
// Provenance: what is true of this machine and this program for a whole run.

#include "harness/target.hpp"
#include "results/bench_rows.hpp"

#include <string>

namespace foreplan::harness {

/// CPU, kernel, C library, compiler and commit of this program, version of the harness, and of the
/// environment variables those by which libraries are steered (`kSteeringPrefixes`); then what the
/// target says. The host's name only as a hash. Nothing that differs from one start to the next,
/// for a run goes on only where all of this is the same.
[[nodiscard]] results::BenchFacts environment_facts(const Target& target);

/// Changes when samples are taken differently, so that runs are not mixed.
inline constexpr int kHarnessVersion = 1;

/// Variables with these beginnings steer what is measured.
inline constexpr std::string_view kSteeringPrefixes[] = {
    "NCCL_",   "CUDA_", "CUBLAS_",   "CUDNN_",    "NVIDIA_", "OMP_", "GOMP_",  "KMP_",    "DNNL_",
    "ONEDNN_", "MKL_",  "OPENBLAS_", "OMPI_MCA_", "UCX_",    "FI_",  "TORCH_", "PYTORCH_"};

}  // namespace foreplan::harness
