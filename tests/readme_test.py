#!/usr/bin/env python3
# ctest: LABELS docs TIMEOUT 900 COST 60
"""The commands that README.md shows work as shown.

Each ```sh block is run as one script in a fresh clone. Where the README clones from the network, this clones the
repository at hand; ./twinrail runs the programs that are built already. A block is left out when the line before it is
an HTML comment that starts with "not run:" and gives the reason; a command that would start these tests again is too.
What the demo prints according to the README is compared with a small run: headings and labels, not the figures.
"""

import difflib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from lib import program, sources

BLOCK = re.compile(r"(?:^<!-- (not run: [^\n]*?) -->\n)?^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
CLONE = re.compile(r"^(\s*)git clone\s+\S+(.*)$", re.MULTILINE)
BLOCK_SECONDS = 300
SHOWN = re.compile(r"^<!-- demo-output -->\n```text\n(.*?)^```\n<!-- /demo-output -->", re.MULTILINE | re.DOTALL)
INTRODUCTION = ("orders", "rails", "cuts", "breaker", "doubt", "waiting")


def prepare(block):
    """The block as it is run here."""
    lines = []
    for line in block.splitlines():
        line = re.sub(r"^\$ ", "", line)
        line = CLONE.sub(r"\1clone_here\2", line)
        if re.match(r"\s*(sudo\s|apt(-get)?\s|\./twinrail\s+test\b|\.ci/run\b|ctest\b)", line):
            line = f": left out: {line}"
        lines.append(line)
    return "\n".join(lines) + "\n"


PROLOGUE = r"""
set -euo pipefail
clone_here() {
  local name=${1:-twinrail}
  rm -rf "$name"
  git -c advice.detachedHead=false clone -q "$TWINRAIL_ROOT" "$name"
  printf '#!/usr/bin/env bash\nexec "%s/twinrail" "$@"\n' "$TWINRAIL_ROOT" >"$name/twinrail"
  chmod +x "$name/twinrail"
}
"""


def run(number, block, folder):
    """Runs one block; returns what went wrong, or None. Nothing it has started outlives it."""
    inside = folder / "twinrail"
    cloning = "clone_here" in block
    if not cloning and not inside.exists():
        run(0, "clone_here twinrail\n", folder)
    process = subprocess.Popen(
        ["bash", "-c", PROLOGUE + block], cwd=folder if cloning else inside, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "TWINRAIL_ROOT": str(sources.ROOT), "CI": "true"})
    try:
        output, _ = process.communicate(timeout=BLOCK_SECONDS)
        problem = f"exit status {process.returncode}" if process.returncode else None
    except subprocess.TimeoutExpired:
        problem, output = f"still running after {BLOCK_SECONDS} s", ""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if problem:
        print(f"--- block {number}\n{block}--- printed\n{output[-4000:]}")
    return problem and f"README.md, block {number}: {problem}"


def labels(text):
    """What stays the same from run to run and from machine to machine, a line each."""
    lines = []
    for line in filter(None, map(str.strip, text.splitlines())):
        cells = re.split(r"\s{2,}", line)
        if set(line) <= set("- "):
            cells = ["-"] * len(cells) if len(cells) > 1 else line.split()
            line = f"rule of {len(cells)} columns"
        elif cells[0] in INTRODUCTION and len(cells) == 2:
            line = cells[0]
        elif len(cells) > 2 and re.match(r"[0-9-]", cells[-2]):
            # The figures of a table: how many columns it has, and what is in the first one if that is a name.
            line = f"{'#' if re.match(r'[0-9]', cells[0]) else cells[0]} and {len(cells) - 1} columns"
        else:
            line = re.sub(r"\b[0-9a-f]{16}\b|(?<![\w.])\d[\d,.]*(?= |$)", "#", " | ".join(cells))
        lines.append(line)
    return lines


def check_demo_output(text):
    """What is wrong with the output that the README shows, or None. `...` stands for lines that are left out."""
    found = SHOWN.search(text)
    if not found:
        return "README.md: the demo's output between <!-- demo-output --> and <!-- /demo-output --> is gone"
    done = program.run("demo", "--orders", 20_000)
    if done.returncode != 0:
        return f"twinrail demo: exit status {done.returncode}: {done.stderr.strip()}{done.stdout[-500:]}"
    shown, real = labels(found.group(1)), labels(done.stdout)
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line + "\n") for line in shown)
    if re.fullmatch(pattern, "".join(line + "\n" for line in real)):
        return None
    different = difflib.unified_diff(shown, real, "README.md", "twinrail demo", lineterm="", n=1)
    return "README.md shows other output than `twinrail demo` prints:\n" + "\n".join(different)


def main():
    text = (sources.ROOT / "README.md").read_text(encoding="utf-8")
    problems, ran = [], 0
    with tempfile.TemporaryDirectory() as name:
        for number, (reason, block) in enumerate(BLOCK.findall(text), 1):
            if reason:
                print(f"block {number} {reason}")
                continue
            ran += 1
            problem = run(number, prepare(block), pathlib.Path(name))
            if problem:
                problems.append(problem)
    if os.access(program.BIN, os.X_OK):
        ran += 1
        if problem := check_demo_output(text):
            problems.append(problem)
    if "```sh" in text and not ran:
        sys.exit(sources.SKIPPED)
    sources.finish("README blocks", problems, ran)


if __name__ == "__main__":
    sys.exit(main())
