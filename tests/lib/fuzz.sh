#!/usr/bin/env bash
# fuzz.sh PROGRAM SECONDS SEEDS: one bounded run of a libFuzzer program. SEEDS is a folder that need not exist. A
# finding is kept below the build folder, and its name is in the output.
set -euo pipefail
program=$1
seconds=$2
seeds=$3
findings=$(dirname "$program")/../findings/$(basename "$program")
mkdir -p "$findings"
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
folders=("$corpus")
[[ ! -d $seeds ]] || folders+=("$seeds")
"$program" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="$findings/" "${folders[@]}" 2>&1 | tail -n 40
