#!/usr/bin/env bash
# ctest: FULL TIMEOUT 120 COST 10
# Trap B1: where one of the two RDMA libraries is missing, the configure step says what is off; asked for, it fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

configure() { # NAME OPTIONS...: its output to stdout
  local name=$1
  shift
  cmake -S "$TWINRAIL_ROOT" -B "$folder/$name" -G Ninja -DTWINRAIL_TESTS=OFF "$@" 2>&1
}
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# A value that is no path stands for a library that was not found.
out=$(configure auto -DTWINRAIL_RDMACM_LIBRARY=OFF) || fail "without librdmacm the configure step fails: $out"
[[ $out == *"The verbs rail is off: librdmacm-dev not found"* ]] || fail "nothing is said of what is off: $out"
grep -q 'rail/verbs' "$folder/auto/build.ninja" && fail 'the rail is built without its library'

if out=$(configure on -DTWINRAIL_VERBS=ON -DTWINRAIL_RDMACM_LIBRARY=OFF); then fail 'asked for, and yet it goes on'; fi
[[ $out == *"install the package librdmacm-dev"* ]] || fail "the package is not named: $out"

out=$(configure off -DTWINRAIL_VERBS=OFF) || fail "it cannot be turned off: $out"
grep -q 'rail/verbs' "$folder/off/build.ninja" && fail 'turned off, and yet it is built'
echo 'configure: ok'
