#!/bin/sh
# Measures this machine from end to end and leaves everything in one folder: checks every kernel against its
# reference, runs the standard bench within a budget, fits a profile, puts the same questions to PyTorch and
# compares real training steps with what the profile predicts. One table says how each part went.
#
#   scripts/measure-device.sh OUTDIR [BUDGET]      BUDGET of the bench, default 5min
#     --target KIND   cuda (default), host, or synthetic to rehearse
#     --build DIR     folder of a build that has foreplan-bench; default: build/cuda or build/release, made if
#                     neither is there
#
#   FOREPLAN_PYTHON   interpreter that has torch; default: python3
#
# A part that is missing here is skipped with the reason; a part that fails does not keep the others from
# running. The same command goes on where an earlier one ended. Exit code 0: nothing failed; 1: something
# did; 2: wrong arguments; 3: nothing to measure on, or the program cannot be built.
set -u
root=$(CDPATH='' cd -P "$(dirname "$(readlink -f "$0")")/.." && pwd) || exit 3
python=${FOREPLAN_PYTHON:-python3}
target=cuda build='' out='' budget=''

say() { printf 'measure-device: %s\n' "$*" >&2; }
usage() {
  say "$1"
  sed -n '6,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --target | --build)
      [ $# -ge 2 ] || usage "$1 needs a value"
      if [ "$1" = --target ]; then target=$2; else build=$2; fi
      shift 2 ;;
    -*) usage "unknown option $1" ;;
    *)
      if [ -z "$out" ]; then out=$1; elif [ -z "$budget" ]; then budget=$1; else usage "too many arguments"; fi
      shift ;;
  esac
done
[ -n "$out" ] || usage "no OUTDIR"
budget=${budget:-5min}
kind=${target%%:*}

mkdir -p "$out/logs" "$out/devices" || exit 3
out=$(CDPATH='' cd -P "$out" && pwd) || exit 3
table=$out/table.txt
database=$out/measurements.db
export FOREPLAN_DEVICES="${FOREPLAN_DEVICES:-$out/devices}"
export FOREPLAN_DATA="${FOREPLAN_DATA:-$root}"
: >"$table"
failed=0

# A line of the table: part, outcome, remark.
note() {
  printf '%-22s %-8s %s\n' "$1" "$2" "$3" | tee -a "$table"
  [ "$2" != failed ] || failed=1
}

# Runs a command with its output in the part's log, at most an hour: a part that hangs shall not keep the
# others from running. `timeout` ends what the command has started, too.
run() {
  part=$1
  shift
  started=$(date +%s)
  timeout -k 20 3600 "$@" >"$out/logs/$part.log" 2>&1
  code=$?
  [ $code -ne 124 ] || echo "no end after an hour" >>"$out/logs/$part.log"
  took=$(($(date +%s) - started))
  return $code
}
# The last line that says something.
last_line() { sed -n '/[^[:space:]]/h; ${g;p;}' "$out/logs/$1.log" | cut -c 1-200; }

# ---- The programs: given, built before, or built now.
if [ -z "$build" ]; then
  for candidate in "$root/build/cuda" "$root/build/release"; do
    if [ -x "$candidate/cli/foreplan-bench" ] && [ -x "$candidate/cli/foreplan" ]; then
      build=$candidate
      break
    fi
  done
fi
if [ -z "$build" ]; then
  preset=release
  [ "$kind" != cuda ] || preset=cuda
  build=$root/build/$preset
  say "building into $build"
  if ! run build sh -c "cd '$root' && scripts/setup.sh build host test && cmake --preset $preset && cmake --build --preset $preset"; then
    note build failed "$(last_line build)"
    exit 3
  fi
fi
bench=$build/cli/foreplan-bench
foreplan=$build/cli/foreplan
if [ ! -x "$bench" ] || [ ! -x "$foreplan" ]; then
  note build failed "$build has no cli/foreplan-bench and cli/foreplan"
  exit 3
fi

# ---- What is here. The program says in words which libraries it found.
"$bench" --targets >"$out/logs/targets.log" 2>&1
setting=$target
[ "$kind" != host ] || case $target in *describe=*) ;; host) setting=host:describe=$out/devices ;; *) setting=$target,describe=$out/devices ;; esac
if ! run machine "$bench" --target "$setting" --list; then
  note machine failed "$(sed -n '/nothing to measure/d; s/^ *//; p; q' "$out/logs/machine.log" | cut -c 1-200)"
  exit 3
fi
device=$(sed -n 's/^device: *"\{0,1\}\([^"]*\)"\{0,1\} *$/\1/p' "$out/logs/machine.log" | head -n 1)
note machine ok "$device, $(grep -c 'op:' "$out/logs/machine.log") points in the standard list"

# ---- Every kernel against its reference.
tests=$build/tests/device/foreplan_device_tests
[ "$kind" != host ] || tests=$build/tests/foreplan_unit_tests
if [ "$kind" = synthetic ]; then
  note check skipped "a made-up device computes nothing"
elif [ ! -x "$tests" ]; then
  note check skipped "this build has no ${tests#"$build"/}"
else
  filter='*'
  [ "$kind" != host ] || filter='*Host*Kernel*:*HostKernels*'
  if run check "$tests" --gtest_filter="$filter"; then
    note check ok "$(sed -n 's/^\[  PASSED  \] //p' "$out/logs/check.log" | head -n 1) $(sed -n 's/^\[  SKIPPED \] \([0-9]* tests\{0,1\}\).*/\1 skipped/p' "$out/logs/check.log" | head -n 1), ${took} s"
  else
    note check failed "$(sed -n 's/^\[  FAILED  \] //p' "$out/logs/check.log" | head -n 1), see logs/check.log"
  fi
fi

# ---- The standard bench. It checks each kernel at first use as well.
run bench "$bench" --target "$setting" --budget "$budget" --db "$database"
case $code in
  0) note bench ok "budget $budget, ${took} s" ;;
  1) note bench failed "some points failed, see logs/bench.log" ;;
  *) note bench failed "exit code $code: $(last_line bench)" ;;
esac

# ---- A profile of this machine from what was just measured, judged by cross-validation.
profile=$out/profile.json
if [ "$kind" = synthetic ]; then
  note calibrate skipped "rows of a made-up device never enter a calibration"
elif run calibrate "$foreplan" calibrate --device "$device" --db "$database" --out "$profile"; then
  note calibrate ok "$profile, ${took} s"
else
  note calibrate failed "$(last_line calibrate)"
fi

# ---- PyTorch beside it, and real training steps.
torch_target=cpu torch_missing=''
[ "$kind" != cuda ] || torch_target=cuda
if [ "$kind" = synthetic ]; then
  torch_missing="a made-up device runs no PyTorch"
elif ! "$python" -c 'import torch, yaml' >"$out/logs/torch.log" 2>&1; then
  torch_missing="$python has no torch or no yaml"
elif [ "$kind" = cuda ] && ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >"$out/logs/torch.log" 2>&1; then
  torch_missing="the torch of $python has no CUDA"
fi
if [ -n "$torch_missing" ]; then
  note pytorch skipped "$torch_missing"
  note "training steps" skipped "$torch_missing"
else
  graph=''
  [ "$torch_target" != cuda ] || graph=--graph
  # shellcheck disable=SC2086  # an option or nothing
  if run pytorch "$python" "$root/harness/pytorch/bench_torch.py" --device-name "$device" --target "$torch_target" \
    $graph --budget "$budget" --out "$out/pytorch.jsonl" --db "$database" --foreplan "$foreplan"; then
    note pytorch ok "$(wc -l <"$out/pytorch.jsonl") rows, ${took} s"
  else
    note pytorch failed "$(last_line pytorch)"
  fi
  # Layer stacks at the widths that a GPU has room for; on a processor small ones, to rehearse it.
  precision=bf16
  [ "$kind" = cuda ] || grep -qs '^  bf16:' "$FOREPLAN_DEVICES"/*.yaml || precision=fp32
  if [ ! -s "$profile" ]; then
    note "training steps" skipped "there is no profile to predict from"
  elif run training env PYTHONPATH="$root/harness/pytorch" "$python" -m stacks --device "$torch_target" \
    --device-name "$device" --profile "$profile" --precision $precision --foreplan "$foreplan" --out "$out/training"; then
    note "training steps" ok "$(last_line training), ${took} s"
  else
    note "training steps" failed "$(last_line training)"
  fi
  sed -n '/^run  /,$p' "$out/logs/training.log" 2>/dev/null | tee -a "$table"
fi

say "everything is in $out"
exit $failed
