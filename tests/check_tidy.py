#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 900 PROCESSORS 2 COST 200 FULL
"""clang-tidy finds nothing in the sources that are compiled. Arguments: only the files whose path contains one.

A file is looked at again only when it, a header of ours below it, or .clang-tidy has changed: clean results are kept
by content in build/tidy.
"""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

from lib import sources

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
NOISE = re.compile(r"^\d+ warnings? (generated|treated)|^Suppressed \d+ warnings|^Use -header-filter")


def tidy_tool():
    for name in ("clang-tidy-14", "clang-tidy"):
        if shutil.which(name):
            return name
    return None


def database():
    """A tree compiled by Clang, whose flags clang-tidy understands, and its precompiled headers too."""
    for tree in ("tsan", "release"):
        path = sources.ROOT / "build" / tree / "compile_commands.json"
        if path.is_file():
            return path
    return None


class Contents:
    """Hash of a file together with everything of ours that it includes."""

    def __init__(self):
        self.closures = {}

    def closure(self, path):
        if path not in self.closures:
            self.closures[path] = {path}
            for name in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
                for folder in (path.parent, sources.ROOT / "src", sources.ROOT / "include",
                               sources.ROOT / "tools" / "twinrail"):
                    if (folder / name).is_file():
                        self.closures[path] |= self.closure((folder / name).resolve())
                        break
        return self.closures[path]

    def key(self, path, settings):
        digest = hashlib.sha256(settings)
        for part in sorted(self.closure(path)):
            digest.update(str(part).encode() + b"\0" + part.read_bytes())
        return digest.hexdigest()


def main():
    tool, commands = tidy_tool(), database()
    if tool is None or commands is None:
        print("skipped: needs clang-tidy and a configured build (./twinrail test makes both)")
        sys.exit(sources.SKIPPED)
    clean = sources.ROOT / "build" / "tidy"
    clean.mkdir(parents=True, exist_ok=True)
    settings = (sources.ROOT / ".clang-tidy").read_bytes()
    settings += subprocess.run([tool, "--version"], capture_output=True, check=True).stdout

    # Generated sources, such as that of a precompiled header, are not ours.
    files = {pathlib.Path(e["file"]) for e in json.loads(commands.read_text(encoding="utf-8"))}
    files = sorted(f for f in files if "build" not in f.relative_to(sources.ROOT).parts[:1])
    if sys.argv[1:]:
        files = [f for f in files if any(part in str(f) for part in sys.argv[1:])]
    contents = Contents()
    keys = {f: contents.key(f, settings) for f in files}
    jobs = [(f, [tool, "--quiet", "-p", str(commands.parent), "--extra-arg=-Wno-unknown-warning-option", str(f)])
            for f in files if not (clean / keys[f]).exists()]
    failed = set(sources.run_parallel(jobs, show_command=False, noise=NOISE))
    for path, _ in jobs:
        if path not in failed:
            (clean / keys[path]).touch()
    print(f"{len(jobs)} looked at, the others are unchanged since they were clean")
    sources.finish("tidy", [sources.relative(f) for f in sorted(failed)], len(files))


if __name__ == "__main__":
    main()
