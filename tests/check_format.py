#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 120 PROCESSORS 2 COST 5
"""Sources are formatted as .clang-format says. `tests/check_format.py --fix` formats them.

Only version 14 is asked: each version formats a little differently.
"""

import shutil
import subprocess
import sys

from lib import sources


def formatter():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
            if "version 14." in version:
                return name
    return None


def main():
    tool = formatter()
    if tool is None:
        print("skipped: clang-format 14 is not installed")
        sys.exit(sources.SKIPPED)
    files = sources.code_files()
    if sys.argv[1:] == ["--fix"]:
        subprocess.run([tool, "-i", *map(str, files)], check=True)
        return
    # One line a file and not one a place: the cure is the same for all.
    failed = sources.run_parallel([(f, [tool, "--dry-run", "-Werror", "-ferror-limit=1", str(f)]) for f in files],
                                  show_output=False)
    if failed:
        print("to format everything: python3 tests/check_format.py --fix")
    sources.finish("format", [f"{sources.relative(f)}: not formatted" for f in failed], len(files))


if __name__ == "__main__":
    main()
