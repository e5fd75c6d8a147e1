#!/bin/sh
# Writes the golden answers anew (tests/golden/data) and shows what changed; review the difference
# before it is committed.
set -eu
cd "$(dirname "$(readlink -f "$0")")/.."

cmake --preset tests
cmake --build --preset tests --target foreplan_golden_tests
rm -f tests/golden/data/*.txt
FOREPLAN_DATA="$PWD" FOREPLAN_REGENERATE_GOLDEN=1 build/tests/tests/foreplan_golden_tests
git --no-pager diff --stat -- tests/golden/data
