"""The project's own files, and parallel runs over them. Standard library only."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(os.environ.get("TWINRAIL_ROOT", pathlib.Path(__file__).resolve().parents[2]))
CODE_FOLDERS = ("include", "src", "softverbs", "tools", "apps", "bench", "tests")
SKIPPED = 77


def code_files(root=ROOT, suffixes=(".h", ".cc")):
    """Every header and source of ours below `root`, sorted."""
    found = []
    for folder in CODE_FOLDERS:
        found += [p for p in (root / folder).rglob("*") if p.suffix in suffixes and p.is_file()]
    return sorted(found)


def all_files(root=ROOT):
    """Every file that is, or could be, committed: what Git ignores is left out."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listed.returncode == 0:
        names = [os.fsdecode(n) for n in listed.stdout.split(b"\0") if n]
        return sorted(p for p in (root / n for n in names) if p.is_file())
    return sorted(p for p in root.rglob("*") if p.is_file() and "build" not in p.relative_to(root).parts[:1])


def relative(path, root=ROOT):
    return path.relative_to(root).as_posix()


def run_parallel(commands, show_command=True, show_output=True, noise=None):
    """Runs (name, argv) pairs on all cores; returns {name: output} of those that failed, printed unless told not to.

    Lines that match `noise` are left out.
    """
    failed = {}

    def run(item):
        name, argv = item
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        return name, argv, done

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, argv, done in pool.map(run, commands):
            if done.returncode == 0:
                continue
            failed[name] = "\n".join(
                line for line in done.stdout.splitlines() if not (noise and noise.search(line)))
            if show_command and show_output:
                print("$", " ".join(argv))
            if show_output:
                print(failed[name], flush=True)
    return failed


def finish(what, problems, checked):
    """Prints the outcome and ends the script with it."""
    for problem in problems:
        print(problem)
    if not checked:
        print(f"{what}: nothing to check was found, which cannot be right")
        sys.exit(1)
    print(f"{what}: {checked} checked, {len(problems)} bad")
    sys.exit(1 if problems else 0)
