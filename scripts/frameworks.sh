#!/bin/sh
# Installs what the tests show exported launch files to: megatron-core, Megatron-Bridge, torchtitan,
# DeepSpeed and Accelerate, into a virtual environment of their own.
#
#   scripts/frameworks.sh [FOLDER]      default: build/frameworks (1.2 GB, about a minute)
#
# Does nothing where FOLDER is up to date. $PYTHON (default python3) makes it and lends its PyTorch;
# where it has none, a PyTorch for processors is installed too. A PyTorch that brings GPU libraries
# (several GB) is not fetched unasked. The frameworks come without their own dependencies, most of
# which are GPU libraries that reading a configuration does without. Exit code 3 if something is
# missing or cannot be installed.
set -u

python=${PYTHON:-python3}
folder=${1:-$(dirname "$(readlink -f "$0")")/../build/frameworks}
torch=torch==2.13.0

say() { printf 'foreplan: %s\n' "$*" >&2; }

wanted="$(sha256sum <"$0") $("$python" -c 'import sys; print(sys.version)')" || exit 3
stamp=$folder/installed-by
[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || exit 0

log=$(mktemp) || exit 3
trap 'rm -f "$log"' EXIT
fail() {
  tail -n 15 "$log" >&2
  say "$1"
  exit 3
}
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }

"$python" -m venv --clear "$folder" >"$log" 2>&1 ||
  fail "no virtual environment for the frameworks could be made (the last lines are above)"

if site=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null); then
  echo "$site" >"$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth"
else
  parts=$(pip install --quiet --dry-run --report - "$torch" 2>"$log") || fail "$torch cannot be had here (no network?)"
  case $parts in
    *'"name": "nvidia-'*)
      fail "$torch comes with GPU libraries here, several GB; name a Python that has a PyTorch: PYTHON=..." ;;
  esac
  pip install --quiet "$torch" >"$log" 2>&1 || fail "$torch could not be installed (the last lines are above)"
fi
{
  pip install --quiet setuptools wheel packaging numpy pyyaml tqdm tyro einops psutil hjson msgpack py-cpuinfo pydantic \
    rich six 'transformers<5' &&
    DS_BUILD_OPS=0 pip install --quiet --no-deps --no-build-isolation \
      hydra-core==1.3.2 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3 \
      megatron-core==0.16.1 megatron-bridge==0.3.1 torchtitan==0.2.2 deepspeed==0.19.8 accelerate==1.15.0
} >"$log" 2>&1 || fail "the frameworks could not be installed (the last lines are above)"
echo "$wanted" >"$stamp"
