#!/bin/sh
# Installs what the tests show exported launch files to: megatron-core, torchtitan, DeepSpeed and
# Accelerate, into a virtual environment of their own.
#
#   scripts/frameworks.sh [FOLDER]      default: build/frameworks (about 80 MB)
#
# PyTorch is not installed: $PYTHON (default python3) must have it, and a build for processors is
# enough. The frameworks come without their own dependencies, most of which are GPU libraries that
# reading a configuration does without. Exit code 3 if something is missing or cannot be installed.
set -u

python=${PYTHON:-python3}
folder=${1:-$(dirname "$(readlink -f "$0")")/../build/frameworks}

say() { printf 'foreplan: %s\n' "$*" >&2; }

site=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null) || {
  say "$python has no PyTorch; install torch first (its CPU build will do), or name another one: PYTHON=..."
  exit 3
}
log=$(mktemp) || exit 3
trap 'rm -f "$log"' EXIT
{
  "$python" -m venv "$folder" &&
    echo "$site" >"$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth" &&
    "$folder/bin/python" -m pip install --quiet setuptools wheel packaging numpy pyyaml tqdm tyro einops psutil hjson \
      msgpack py-cpuinfo pydantic safetensors huggingface_hub &&
    DS_BUILD_OPS=0 "$folder/bin/python" -m pip install --quiet --no-deps --no-build-isolation \
      megatron-core==0.16.1 torchtitan==0.2.2 deepspeed==0.19.8 accelerate==1.15.0
} >"$log" 2>&1 || {
  tail -n 15 "$log" >&2
  say "the frameworks could not be installed (the last lines are above)"
  exit 3
}
