"""Running the built program in tests. Standard library only."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(os.environ.get("TWINRAIL_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BIN = os.environ.get("TWINRAIL_BIN", str(ROOT / "build" / "release" / "bin" / "twinrail"))
SAMPLE = ROOT / "tools" / "twinrail" / "orderflow" / "data" / "orders-sample.csv"


def skip_without_program():
    if not os.access(BIN, os.X_OK):
        print(f"{BIN} is not built", file=sys.stderr)
        sys.exit(77)


def environment(**more):
    """The caller's, without knobs that would change what is tested."""
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("TWINRAIL_SESSION", "TWINRAIL_BREAKER", "TWINRAIL_ENGINE", "TWINRAIL_CONNECT",
                                  "TWINRAIL_CONTEXT", "TWINRAIL_RDMA"))}
    clean.update(more)
    return clean


def run(*arguments, seconds=120, **options):
    """Runs to the end: a CompletedProcess with text output."""
    options.setdefault("env", environment())
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([BIN, *map(str, arguments)], capture_output=True, text=True, timeout=seconds, check=False,
                          **options)


def start(*arguments, **options):
    options.setdefault("env", environment())
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    # Content that a program passes on need not be text.
    return subprocess.Popen([BIN, *map(str, arguments)], encoding="utf-8", errors="surrogateescape", **options)


def finish(process, seconds=60):
    """(exit status, stdout, stderr); a process that does not end in time is killed, and that is a failure."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{process.args} did not end within {seconds} s; it said: {out}{err}") from None
    return process.returncode, out or "", err or ""


def stop(process):
    """Whatever state it is in: it ends, and its pipes are closed."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def wait_for_line(process, start_of_line, seconds=30):
    """The first line on stderr that starts so, without that start."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        line = process.stderr.readline()
        if line.startswith(start_of_line):
            return line[len(start_of_line):].strip()
        if not line:
            break
    raise AssertionError(f"{process.args} never said {start_of_line!r}")


def children_of(pid):
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [(int(line.split(None, 1)[0]), line.split(None, 1)[1]) for line in listed.stdout.splitlines()]


def wait_until(what, seconds=30, every=0.01):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = what()
        if value:
            return value
        time.sleep(every)
    raise AssertionError(f"not within {seconds} s")


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A child of somebody who has not asked for it yet is gone for us.
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def one_line(test, text):
    """Errors are one line that names the program."""
    lines = [line for line in text.splitlines() if line]
    test.assertEqual(len(lines), 1, text)
    test.assertTrue(lines[0].startswith("twinrail: "), text)
    return lines[0]


def parse(test, text):
    try:
        return json.loads(text)
    except ValueError:
        test.fail(f"no JSON: {text!r}")
