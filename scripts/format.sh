#!/bin/sh
# Formats the C++ sources in place, or those named in the arguments.
#
#   scripts/format.sh [--check] [FILE...]     --check changes nothing and fails on a difference
set -eu
cd "$(dirname "$(readlink -f "$0")")/.."

mode=-i
if [ "${1-}" = --check ]; then
  mode="--dry-run -Werror"
  shift
fi
if ! command -v clang-format-16 >/dev/null 2>&1; then
  echo "format: clang-format-16 is not installed; scripts/setup.sh lint brings it" >&2
  exit 3
fi
if [ $# -gt 0 ]; then
  exec clang-format-16 $mode "$@"
fi
find . \( -path ./build -o -name '.?*' \) -prune -o \
  -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r clang-format-16 $mode
