#!/bin/sh
# Installs the Debian or Ubuntu packages that foreplan needs and that are missing. Asks nothing.
#
#   scripts/setup.sh [GROUP...]     GROUP: build, python, host, test, lint, fuzz, browser; default: all
#                                   but browser
#
# `python` is for the Python package and hooks in scenarios, `host` for measuring (Google Benchmark;
# oneDNN and Open MPI for processors); everything else builds without them. `browser` is Chromium for
# the tests of pages: 140 MB to fetch, 460 MB installed; Ubuntu has no such package.
#
# As root it calls apt-get itself, else through sudo where sudo needs no password. CUDA is not
# installed; without a toolkit all but GPU measurements builds. Exit code 3 if packages are missing
# and cannot be installed; the message then has the command to run.
set -u

build_packages="g++ cmake ninja-build libsqlite3-dev nlohmann-json3-dev libyaml-cpp-dev libfmt-dev
  libtomlplusplus-dev libcli11-dev libtbb-dev libexpected-dev libeigen3-dev"
python_packages="python3-dev python3-numpy python3-venv pybind11-dev"
host_packages="libbenchmark-dev libdnnl-dev libopenmpi-dev openmpi-bin"
test_packages="python3 libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev sqlite3 zsh"
browser_packages="chromium chromium-driver python3-selenium"
lint_packages="python3 clang-format-16 clang-tidy-16"
fuzz_packages="clang-16 libclang-rt-16-dev"

say() { printf 'foreplan: %s\n' "$*" >&2; }

# The packages of the groups named in the arguments.
packages_of() {
  for group in "$@"; do
    case $group in
      build) echo $build_packages ;;
      python) echo $python_packages ;;
      host) echo $host_packages ;;
      test) echo $test_packages ;;
      lint) echo $lint_packages ;;
      fuzz) echo $fuzz_packages ;;
      browser) echo $browser_packages ;;
      *) say "unknown group '$group'; groups: build, python, host, test, lint, fuzz, browser"; return 2 ;;
    esac
  done
}

# Those of the packages in the arguments that are not installed.
missing_of() {
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p')
  for package in "$@"; do
    case "
$installed
" in
      *"
$package
"*) ;;
      *) echo "$package" ;;
    esac
  done
}

[ $# -gt 0 ] || set -- build python host test lint fuzz
packages=$(packages_of "$@") || exit 2

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  say "no apt-get here; what these Debian packages hold must be installed already:" $packages
  exit 0
fi
missing=$(missing_of $packages)
[ -n "$missing" ] || exit 0

command="apt-get install -y --no-install-recommends $(echo $missing)"
if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root="sudo -n"
else
  say "packages are missing, and neither root nor a sudo without password is at hand; run:"
  say "  sudo $command"
  exit 3
fi

log=$(mktemp) || exit 3
trap 'rm -f "$log"' EXIT
say "installing with apt-get:" $missing
apt() {
  $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -o DPkg::Lock::Timeout=300 "$@" \
    </dev/null >>"$log" 2>&1
}
# A failed update need not matter (one broken source of many); a failed install does. The second try
# is for machines that run their own update just after boot.
for try in 1 2 3; do
  apt update || true
  if apt install -y --no-install-recommends $missing; then
    exit 0
  fi
  grep -q 'Could not get lock' "$log" || break
  sleep 10
done
tail -n 15 "$log" >&2
say "apt-get failed (its last lines are above); the command was: $command"
exit 3
