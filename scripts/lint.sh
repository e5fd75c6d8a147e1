#!/bin/sh
# Everything that is checked without running the program: include order, formatting, clang-tidy.
#
#   scripts/lint.sh [FILE.cpp...]     without arguments all sources; clang-tidy takes minutes then
#
# A missing tool is named and skipped (`scripts/setup.sh lint` brings both).
set -u
cd "$(dirname "$(readlink -f "$0")")/.." || exit 3
status=0

/usr/bin/python3 scripts/check_includes.py || status=1

if command -v clang-format-16 >/dev/null 2>&1; then
  scripts/format.sh --check "$@" || status=1
else
  echo "lint: formatting skipped, no clang-format-16" >&2
fi

if command -v clang-tidy-16 >/dev/null 2>&1; then
  mkdir -p build
  # Configured afresh each time, a second's work, so that the list of files is today's.
  cmake --preset tests >build/lint-configure.log 2>&1 || { cat build/lint-configure.log >&2; exit 3; }
  if [ $# -gt 0 ]; then
    printf '%s\n' "$@"
  else
    find core models kernels harness results simulator scenarios cli tests -name '*.cpp' 2>/dev/null
  fi | grep '\.cpp$' | xargs -r -P "$(nproc)" -n 1 clang-tidy-16 --quiet \
    --extra-arg-before=-Wno-unknown-warning-option -p build/tests || status=1
else
  echo "lint: clang-tidy skipped, no clang-tidy-16" >&2
fi
exit $status
