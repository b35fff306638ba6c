#!/usr/bin/env python3
# ctest: TIMEOUT 600 PROCESSORS 2 COST 60 LABELS sim
"""The simulator finds what breaks the rules: each patch of tests/mutants, built and run, has to be caught.

A mutant is the tree's own sim_test with the patched sources compiled anew, so it costs a few seconds. It counts as
caught when the simulator's checker says so in one of the ways that the patch names. Everything else is a failure of
this test: a patch that no longer applies, a mutant that does not compile, crashes or hangs, one that survives, and the
program without a patch, built and run the same way, when it does not pass. tests/mutants/README.md says how to refresh
a patch. TWINRAIL_SEED says where the schedules begin.

    python3 tests/mutants.py --only join_above_reported
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time

from lib import sources

PATCHES = sources.ROOT / "tests" / "mutants"
BUILD = pathlib.Path(os.environ.get("TWINRAIL_BUILD", sources.ROOT / "build" / "release"))
WORK = BUILD / "mutants"
BATCHES = (50, 150, 800, 3000)  # schedules: most mutants fall to the first
SECONDS = 120  # for one batch; the dearest takes five
SIM_TEST = "World.EverythingArrivesOnceAndInOrderWhateverBreaks"
HEADER = re.compile(r"\ABreaks: (?P<breaks>.+)\nCaught as: (?P<caught>.+)\n")
TOUCHED = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)
FAILURE = re.compile(r"^seed (\d+): (?:side [AB]:? )?(.+)$", re.MULTILINE)


class Broken(Exception):
    """The mutant says nothing about the simulator."""


class Patch:
    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        self.path, self.name = path, path.stem
        header = HEADER.match(text)
        if not header:
            raise Broken("does not begin with the lines 'Breaks: ...' and 'Caught as: ...'")
        self.breaks = header["breaks"]
        self.caught_as = [words.strip() for words in header["caught"].split("|")]
        self.files = TOUCHED.findall(text)
        odd = [f for f in self.files if not re.fullmatch(r"src/[\w/]+\.cc", f)]
        if odd or not self.files:
            raise Broken(f"patches {odd or 'nothing'}; only src/**/*.cc can be compiled alone")


class Tree:
    """How the build folder compiles the library's sources and links sim_test."""

    def __init__(self):
        if not (BUILD / "bin" / "sim_test").exists():
            sys.exit(f"{BUILD} has no bin/sim_test: cmake --build {BUILD} --target sim_test")
        with open(BUILD / "compile_commands.json", encoding="utf-8") as file:
            self.compile_commands = {os.path.realpath(entry["file"]): entry for entry in json.load(file)}
        listed = subprocess.run(["ninja", "-C", str(BUILD), "-t", "commands", "bin/sim_test"], capture_output=True,
                                text=True, check=True)
        last = [line for line in listed.stdout.splitlines() if " -o bin/sim_test " in line][-1]
        self.link_command = shlex.split(last.removeprefix(": && ").removesuffix(" && :"))

    def compile(self, file, source, target):
        entry = self.compile_commands[os.path.realpath(sources.ROOT / file)]
        command = shlex.split(entry["command"])
        command[command.index("-o") + 1] = str(target)
        command[command.index("-c") + 1] = str(source)
        run_tool([*command, "-w"], entry["directory"], f"{file} does not compile")

    def link(self, objects, target):
        command = list(self.link_command)
        at = command.index("-o")
        # Before the libraries, which are then not asked for what these define.
        command[at:at + 2] = [*map(str, objects), "-o", str(target)]
        run_tool(command, BUILD, "does not link")


def run_tool(command, folder, what):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{what}:\n{done.stdout[-2000:]}")


def apply(patch, folder):
    # Outside of any repository, so that Git neither looks for one nor skips what it ignores.
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=str(folder.parent), LC_ALL="C")
    done = subprocess.run(["git", "apply", "-p1", str(patch.path)], cwd=folder, env=environment, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"tests/mutants/{patch.path.name} no longer applies, see tests/mutants/README.md: "
                     + done.stderr.strip().splitlines()[0])


def build(tree, name, files, patch=None):
    """The program of the tree with these files compiled anew, after the patch if there is one."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    for file in files:
        if not (sources.ROOT / file).is_file():
            raise Broken(f"{file} is not there any more, see tests/mutants/README.md")
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sources.ROOT / file, folder / file)
    if patch:
        apply(patch, folder)
    objects = []
    for file in files:
        objects.append(folder / (file.replace("/", "_") + ".o"))
        tree.compile(file, folder / file, objects[-1])
    program = folder / "sim_test"
    tree.link(objects, program)
    return program


def run_batch(program, first, count):
    """None when all schedules passed, else (seed, what the checker said)."""
    environment = dict(os.environ, TWINRAIL_SEED=str(first), TWINRAIL_SCHEDULES=str(count))
    try:
        done = subprocess.run([str(program), f"--gtest_filter={SIM_TEST}"], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Broken(f"{count} schedules from seed {first} did not end within {SECONDS} s") from None
    if done.returncode == 0 and f"\n{count} schedules, " in done.stdout:
        return None
    failure = FAILURE.search(done.stdout)
    if done.returncode != 1 or not failure:
        raise Broken(f"no verdict but exit status {done.returncode}:\n{done.stdout[-2000:]}")
    return int(failure[1]), failure[2]


def hunt(program, first):
    """(schedules run, what the checker said or None)."""
    tried = 0
    for count in BATCHES:
        verdict = run_batch(program, first + tried, count)
        if verdict:
            return verdict[0] - first + 1, verdict[1]
        tried += count
    return tried, None


def judge_mutant(tree, path, first):
    """A line of the table, and whether all is well."""
    try:
        patch = Patch(path)
        tried, said = hunt(build(tree, patch.name, patch.files, patch), first)
    except Broken as broken:
        return [path.stem, "", "", f"BROKEN: {broken}"], False
    if said is None:
        return [patch.name, patch.breaks, str(tried), "SURVIVED"], False
    if not any(said.startswith(words) for words in patch.caught_as):
        return [patch.name, patch.breaks, str(tried), f"CAUGHT OTHERWISE than as {patch.caught_as}: {said}"], False
    return [patch.name, patch.breaks, str(tried), said], True


def judge_original(tree, paths, first):
    touched = {f for path in paths for f in TOUCHED.findall(path.read_text(encoding="utf-8"))}
    files = sorted(f for f in touched if (sources.ROOT / f).is_file())
    try:
        tried, said = hunt(build(tree, "unmutated", files), first)
    except Broken as broken:
        return ["(no mutant)", "", "", f"BROKEN: {broken}"], False
    return ["(no mutant)", "nothing", str(tried), f"FAILED: {said}" if said else "passed, as it has to"], said is None


def print_table(rows):
    heads = ["mutant", "breaks", "schedules", "how it was caught"]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(3)]
    for row in [heads, *rows]:
        print(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3].splitlines()[0]}")
    for row in rows:
        if "\n" in row[3]:
            print(f"\n{row[0]}: {row[3]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", action="append", help="this mutant; may be given again")
    only = parser.parse_args().only
    paths = sorted(PATCHES.glob("*.patch"))
    if only:
        unknown = set(only) - {path.stem for path in paths}
        if unknown:
            sys.exit(f"no such mutant: {', '.join(sorted(unknown))}; there are {', '.join(p.stem for p in paths)}")
        paths = [path for path in paths if path.stem in only]
    if not paths:
        sys.exit(f"{PATCHES} holds no patch, which cannot be right")
    if not shutil.which("git"):
        print("git, which applies the patches, is not installed")
        sys.exit(sources.SKIPPED)
    first = int(os.environ.get("TWINRAIL_SEED", "1"), 0)
    started = time.monotonic()
    tree = Tree()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        original = pool.submit(judge_original, tree, paths, first)
        judged = list(pool.map(lambda path: judge_mutant(tree, path, first), paths))
        judged.insert(0, original.result())
    print_table([row for row, _ in judged])
    bad = [row[0] for row, well in judged if not well]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"mutants: {len(paths)}, {len(bad)} bad{': ' + ', '.join(bad) if bad else ''}; TWINRAIL_SEED={first}, "
          f"{time.monotonic() - started:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor time")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
