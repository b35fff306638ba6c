#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 300 PROCESSORS 2 COST 30
"""Every header compiles alone, so that the order of includes never matters.

A header that a source of ours includes before anything else is shown to do so by the build itself; the others, and
every public one with every compiler at hand, are compiled here.
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile

from lib import sources

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Werror"]


def command(compiler, root, header):
    return [compiler, *FLAGS, f"-I{root}/src", f"-I{root}/include", f"-I{root}/tools/twinrail", f"-I{root}/bench",
            "-include", str(header), "-x", "c++", os.devnull]


def shown_by_the_build(root):
    """Headers that are the first include of some source in the compile database."""
    shown = set()
    for source in sources.code_files(root, (".cc",)):
        if "tests" in source.relative_to(root).parts[:1]:
            continue
        first = INCLUDE.search(source.read_text(encoding="utf-8"))
        if first:
            shown.add(root / "src" / first.group(1))
    return shown


def compilers():
    built_with = "c++"
    for note in pathlib.Path(os.environ.get("TWINRAIL_BUILD", "build/release")).glob(
            "CMakeFiles/*/CMakeCXXCompiler.cmake"):
        built_with = re.search(r'set\(CMAKE_CXX_COMPILER "([^"]+)"\)', note.read_text(encoding="utf-8")).group(1)
    others = [c for c in ("g++-11", "g++-12", "clang++-14") if shutil.which(c)]
    return built_with, others


def check_the_check(compiler):
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder) / "bad.h"
        header.write_text("#pragma once\ninline std::string name();\n", encoding="utf-8")
        if not sources.run_parallel([("bad.h", command(compiler, sources.ROOT, header))], show_output=False):
            sys.exit("a header that lacks an include was not found")


def main():
    compiler, others = compilers()
    check_the_check(compiler)
    root = sources.ROOT
    shown = shown_by_the_build(root)
    headers = sources.code_files(root, (".h",))
    jobs = []
    for header in headers:
        name = sources.relative(header)
        if name.startswith("include/"):
            jobs += [(f"{name} ({c})", command(c, root, header)) for c in others or [compiler]]
        elif header not in shown:
            jobs.append((name, command(compiler, root, header)))
    failed = sources.run_parallel(jobs)
    print(f"{len(jobs)} compiled here, {len(headers)} headers in all")
    sources.finish("headers", [f"does not compile alone: {n}" for n in failed], len(headers))


if __name__ == "__main__":
    main()
