#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 2400 PROCESSORS 2 COST 100 FULL
"""clang-tidy finds nothing in the sources of the product. Arguments: only the files whose path contains one.

clang-tidy walks every declaration of every header, the standard library's too, once for each check: a source of 200
lines takes it seconds. So a layer's sources go to it as one file that includes them (one by one when they do not
compile together), and clean results are kept by content in build/tidy. Tests, which are half of all sources and the
dearest for what GoogleTest includes, are looked at only when an argument names them, and by a few checks.
"""

import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from lib import sources

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
NOISE = re.compile(r"^\d+ (warnings?|errors?).* generated|^Suppressed \d+ warnings|^Use -header-filter|^Found compiler")
TEST = re.compile(r"_(test|fuzz|bench)\.cc$")
TEST_CHECKS = ("-*,bugprone-use-after-move,bugprone-infinite-loop,bugprone-dangling-handle,bugprone-unused-raii,"
               "bugprone-sizeof-expression,bugprone-copy-constructor-init,readability-duplicate-include")
GROUP = 10
CLEAN = sources.ROOT / "build" / "tidy"


def tidy_tool():
    for name in ("clang-tidy-14", "clang-tidy"):
        if shutil.which(name):
            return name
    return None


def compile_commands():
    """From the tree compiled by Clang, whose flags clang-tidy understands, and its precompiled headers too."""
    for tree in ("asan", "fuzz", "release"):
        path = sources.ROOT / "build" / tree / "compile_commands.json"
        if path.is_file():
            entries = json.loads(path.read_text(encoding="utf-8"))
            # Generated sources, such as that of a precompiled header, are not ours; a removed one is nobody's.
            return {f: e for f, e in ((pathlib.Path(e["file"]), e) for e in entries)
                    if f.is_file() and "build" not in f.relative_to(sources.ROOT).parts[:1]}
    return None


def is_test(path):
    parts = path.relative_to(sources.ROOT).parts
    return bool(TEST.search(path.name)) or parts[0] == "tests" or "testing" in parts


class Contents:
    """Hash of files together with everything of ours that they include."""

    def __init__(self, settings):
        self.settings = settings
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

    def key(self, files):
        digest = hashlib.sha256(self.settings)
        for part in sorted(set().union(*(self.closure(f) for f in files))):
            digest.update(str(part).encode() + b"\0" + part.read_bytes())
        return digest.hexdigest()


def groups_of(files):
    """Lists of sources that are looked at together."""
    together, alone = {}, []
    for path in files:
        if is_test(path):
            alone.append([path])
        else:
            together.setdefault(path.relative_to(sources.ROOT).parts[:2], []).append(path)
    groups = []
    for members in together.values():
        groups += [members[i:i + GROUP] for i in range(0, len(members), GROUP)]
    return groups + alone


class Tidy:
    def __init__(self, tool, commands):
        self.tool = tool
        self.commands = commands

    def job(self, files, key):
        """(name, argv) that looks at `files` together."""
        if len(files) == 1:
            target, folder = files[0], pathlib.Path(self.commands[files[0]]["directory"])
        else:
            folder = CLEAN / "together" / key
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / "together.cc"
            target.write_text("".join(f'#include "{f}"\n' for f in files), encoding="utf-8")
            entry = self.commands[files[0]]
            words = [str(target) if w == str(files[0]) else w for w in shlex.split(entry["command"])]
            (folder / "compile_commands.json").write_text(
                json.dumps([{"directory": entry["directory"], "file": str(target), "arguments": words}]),
                encoding="utf-8")
        checks = [f"--checks={TEST_CHECKS}"] if len(files) == 1 and is_test(files[0]) else []
        return key, [self.tool, "--quiet", *checks, "-p", str(folder), "--extra-arg=-Wno-unknown-warning-option",
                     str(target)]

    def run(self, keyed):
        """Looks at {key: files}; returns {key: findings} of those that are not clean."""
        return sources.run_parallel([self.job(files, key) for key, files in keyed.items()], show_output=False,
                                    noise=NOISE)


def main():
    tool, commands = tidy_tool(), compile_commands()
    if tool is None or commands is None:
        print("skipped: needs clang-tidy and a configured build (./twinrail test makes both)")
        sys.exit(sources.SKIPPED)
    CLEAN.mkdir(parents=True, exist_ok=True)
    settings = (sources.ROOT / ".clang-tidy").read_bytes() + TEST_CHECKS.encode()
    settings += subprocess.run([tool, "--version"], capture_output=True, check=True).stdout
    contents, tidy = Contents(settings), Tidy(tool, commands)

    if sys.argv[1:]:
        files = sorted(f for f in commands if any(part in str(f) for part in sys.argv[1:]))
    else:
        files = sorted(f for f in commands if not is_test(f))
    wanted = {contents.key(group): group for group in groups_of(files)}
    wanted = {key: group for key, group in wanted.items() if not (CLEAN / key).exists()}
    looked_at = sum(len(group) for group in wanted.values())
    found = tidy.run(wanted)
    # Sources that do not compile together may only clash (two local helpers of one name): they are asked one by one.
    clashing = {k for k, text in found.items() if len(wanted[k]) > 1 and "[clang-diagnostic-error" in text}
    single = {contents.key([f]): [f] for k in clashing for f in wanted[k]}
    found.update(tidy.run(single))
    for key in (wanted.keys() | single.keys()) - found.keys():
        (CLEAN / key).touch()
    for key in clashing:
        if not any(contents.key([f]) in found for f in wanted[key]):
            (CLEAN / key).touch()
        del found[key]
    for text in found.values():
        print(text)
    shutil.rmtree(CLEAN / "together", ignore_errors=True)
    print(f"{looked_at} looked at, the others are unchanged since they were clean")
    problems = sorted({line for text in found.values() for line in re.findall(r"^(/\S+?):\d+:\d+: error", text, re.M)})
    sources.finish("tidy", problems or sorted(found), len(files))


if __name__ == "__main__":
    main()
