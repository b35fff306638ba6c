#!/usr/bin/env bash
# ctest: LABELS check TIMEOUT 60
# Shell scripts are free of what shellcheck knows to go wrong.
set -euo pipefail
cd "${TWINRAIL_ROOT:-$(dirname "$0")/..}"
command -v shellcheck >/dev/null || {
  echo 'skipped: shellcheck is not installed'
  exit 77
}
mapfile -t scripts < <(
  find twinrail .ci lab tests tools bench apps -type f \
    \( -name '*.sh' -o -name twinrail -o -name run -o -path 'lab/*' ! -name '*.md' \) 2>/dev/null
)
shellcheck "${scripts[@]}"
echo "shell: ${#scripts[@]} checked, 0 bad"
