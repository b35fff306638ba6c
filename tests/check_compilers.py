#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 30 FULL
"""The trees that the tests have built cover each compiler we promise, with warnings as errors.

The trees are compiled whole by `./twinrail test` before any test runs; this looks at who compiled them.
"""

import json
import pathlib
import re
import shutil
import sys

from lib import sources

PROMISED = {"GNU 11": "g++-11", "GNU 12": "g++-12", "Clang 14": "clang++-14"}
FLAGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror", "-std=c++20")


def compiler_of(tree):
    notes = list((tree / "CMakeFiles").glob("*/CMakeCXXCompiler.cmake"))
    if not notes:
        return None
    text = notes[0].read_text(encoding="utf-8")
    family = re.search(r'CMAKE_CXX_COMPILER_ID "([^"]+)"', text).group(1)
    version = re.search(r'CMAKE_CXX_COMPILER_VERSION "(\d+)', text).group(1)
    return f"{family} {version}"


def main():
    problems, covered = [], {}
    for name in ("release", "asan", "tsan", "aarch64"):
        tree = sources.ROOT / "build" / name
        compiler = compiler_of(tree)
        if compiler is None:
            if name != "aarch64":
                problems.append(f"build/{name} is not configured")
            continue
        # The cross-built tree compiles a part only, so it covers no compiler; its flags are looked at all the same.
        if name != "aarch64":
            covered.setdefault(compiler, []).append(name)
        for entry in json.loads((tree / "compile_commands.json").read_text(encoding="utf-8")):
            lacking = [f for f in FLAGS if f not in entry["command"].split()]
            # Not ours: what the build makes, and GoogleTest, which the cross-build compiles from Debian's sources.
            ours = pathlib.Path(entry["file"]).is_relative_to(sources.ROOT) and "/build/" not in entry["file"]
            if lacking and ours:
                problems.append(f"{name}: {entry['file']} is compiled without {' '.join(lacking)}")
    for compiler, trees in sorted(covered.items()):
        print(f"{compiler}: {', '.join(trees)}")
    for compiler, program in PROMISED.items():
        if compiler not in covered:
            if shutil.which(program):
                problems.append(f"{program} is installed, but no tree is compiled by it; remove build/ and try again")
            else:
                print(f"{compiler}: not in this distribution, not covered here")
    sources.finish("compilers", problems, len(covered))


if __name__ == "__main__":
    main()
