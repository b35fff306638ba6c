#!/usr/bin/env python3
# ctest: LABELS script TIMEOUT 120 COST 5
"""./twinrail, the script: says what is missing where it cannot install, and costs next to nothing when all is there."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from lib import sources

SCRIPT = sources.ROOT / "twinrail"
# What a bare system has: no compiler, no cmake, no apt.
BARE = ("bash", "true", "dirname", "readlink", "env", "cat", "grep", "sed", "tail", "mktemp", "rm", "mkdir", "nproc",
        "flock")

# sudo as cloud images set it up: all without a password, which the user does not have; -v wants one all the same.
NO_PASSWORD = """case $1 in
  -v) echo 'sudo: a password is required' >&2; exit 1 ;;
  -n) shift ;;
esac
exec "$@"
"""
WITH_PASSWORD = """case $1 in
  -n) echo 'sudo: a password is required' >&2; exit 1 ;;
  -v) echo 'asked for the password' >&2; exit 0 ;;
esac
exec "$@"
"""
NOT_ALLOWED = "echo 'sudo: you may not' >&2; exit 1\n"


class Launcher(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.bin = pathlib.Path(self.folder.name) / "bin"
        self.bin.mkdir()
        for name in BARE:
            (self.bin / name).symlink_to(shutil.which(name))
        # A copy, so that what the test does to its build folder is nobody's.
        self.script = pathlib.Path(self.folder.name) / "twinrail"
        shutil.copy(SCRIPT, self.script)

    def stub(self, name, text):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text("#!/usr/bin/env bash\n" + text, encoding="utf-8")
        path.chmod(0o755)

    def run_script(self, *arguments):
        return subprocess.run([str(self.script), *arguments], env={"PATH": str(self.bin), "HOME": "/"}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def test_without_apt_the_packages_are_named_in_one_line(self):
        done = self.run_script("demo")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for package in ("cmake", "ninja-build", "g++", "python3"):
            self.assertIn(package, done.stderr)
        self.assertNotIn("clang", done.stderr)

    def test_without_network_the_failure_is_named_and_its_status_kept(self):
        self.stub("apt-get", 'echo "E: Unable to fetch some archives"; exit 100\n')
        self.stub("apt-cache", "exit 0\n")
        self.stub("sudo", NO_PASSWORD)
        done = self.run_script("bench")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: Unable to fetch some archives", done.stderr)
        self.assertIn("no network", done.stderr.splitlines()[-1])

    def test_only_what_is_missing_is_installed(self):
        log = pathlib.Path(self.folder.name) / "apt.log"
        self.stub("apt-get", f'echo "$@" >>{log}; [[ " $* " != *" install "* ]]\n')
        self.stub("apt-cache", "exit 0\n")
        self.stub("sudo", NO_PASSWORD)
        self.stub("cmake", "exit 1\n")
        self.stub("ninja", "exit 1\n")
        self.run_script("send")
        calls = log.read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(calls), 2, calls)
        self.assertTrue(calls[0].endswith(" update"), calls)
        words = calls[1].split()
        self.assertIn("g++", words)
        for absent in ("cmake", "ninja-build", "python3", "libgtest-dev", "clang-14"):
            self.assertNotIn(absent, words)

    def as_a_user(self):
        """The script takes another path as root."""
        self.script.write_text(self.script.read_text(encoding="utf-8").replace("$EUID", "1000"), encoding="utf-8")

    def with_all_that_is_required(self):
        self.stub("cmake", f'mkdir -p "{self.folder.name}/build"; exit 0\n')
        for name in ("ninja", "g++", "python3", "git", "ctest", "qemu-system-x86_64", "busybox", "cpio", "xz",
                     "ibv_devinfo", "ib_send_lat"):
            self.stub(name, "exit 0\n")
        text = self.script.read_text(encoding="utf-8")
        text = re.sub(r"^/(usr/include|sbin|usr/lib/x86_64-linux-gnu)/\S+", str(self.script), text, flags=re.MULTILINE)
        self.script.write_text(text, encoding="utf-8")

    def test_a_password_is_asked_for_only_where_one_is_needed(self):
        self.as_a_user()
        self.stub("apt-get", 'echo "E: Unable to fetch some archives"; exit 100\n')
        self.stub("apt-cache", "exit 0\n")
        for sudo, said in ((NO_PASSWORD, False), (WITH_PASSWORD, True)):
            self.stub("sudo", sudo)
            done = self.run_script("bench")
            self.assertIn("E: Unable to fetch some archives", done.stderr)
            self.assertEqual("asked for the password" in done.stderr, said, done.stderr)
            self.assertEqual("may ask for your password" in done.stderr, said, done.stderr)

    def test_who_may_not_install_is_told_what_is_missing(self):
        self.as_a_user()
        self.stub("apt-get", "exit 0\n")
        self.stub("apt-cache", "exit 0\n")
        self.stub("sudo", NOT_ALLOWED)
        done = self.run_script("bench")
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get install cmake", done.stderr.splitlines()[-1])

    def test_who_may_not_install_what_is_optional_goes_on_without(self):
        self.as_a_user()
        self.with_all_that_is_required()
        self.stub("apt-get", "exit 0\n")
        self.stub("apt-cache", "exit 0\n")
        self.stub("sudo", NOT_ALLOWED)
        done = self.run_script("test")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("going on without what is optional", done.stderr)
        self.assertIn("clang-tidy-14", done.stderr)

    def test_a_failed_build_shows_the_error_and_fails(self):
        root = pathlib.Path(self.folder.name)
        (root / "build" / "release").mkdir(parents=True)
        (root / "build" / "release" / "build.ninja").touch()
        self.stub("cmake", 'echo "FAILED: x.o"; echo "x.cc:1: error: no"; exit 3\n')
        for name in ("ninja", "g++"):
            self.stub(name, "exit 0\n")
        text = self.script.read_text(encoding="utf-8")
        text = re.sub(r"^/usr/include/\S+", str(self.script), text, flags=re.MULTILINE)
        self.script.write_text(text, encoding="utf-8")
        done = self.run_script("send")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("x.cc:1: error: no", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_two_at_once_when_all_is_there_and_status_is_handed_back(self):
        """send and recv are started together: neither may break the other's build check."""
        if not os.access(os.environ.get("TWINRAIL_BIN", ""), os.X_OK):
            self.skipTest("the program is not built")
        if pathlib.Path(os.environ["TWINRAIL_BUILD"]) != sources.ROOT / "build" / "release":
            self.skipTest("the script runs the release build")
        runs = [subprocess.Popen([str(SCRIPT), "--no-such-flag"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 stdin=subprocess.DEVNULL) for _ in range(2)]
        direct = subprocess.run([os.environ["TWINRAIL_BIN"], "--no-such-flag"], capture_output=True, check=False)
        for run in runs:
            out, err = run.communicate(timeout=60)
            self.assertEqual((run.returncode, out), (direct.returncode, direct.stdout), err)

    def test_finding_that_all_is_there_takes_no_time(self):
        """Everything but the build's own up-to-date check, which is ninja's and CMake's."""
        self.stub("cmake", "exit 0\n")
        for name in ("ninja", "g++", "python3"):
            self.stub(name, "exit 0\n")
        root = pathlib.Path(self.folder.name)
        (root / "build" / "release" / "bin").mkdir(parents=True)
        (root / "build" / "release" / "build.ninja").touch()
        program = root / "build" / "release" / "bin" / "twinrail"
        program.write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
        program.chmod(0o755)
        best = min(self.seconds("demo", 7) for _ in range(5))
        # A few forks; the bound leaves room for a busy machine and still finds a call of dpkg or apt.
        self.assertLess(best, 0.15)

    def seconds(self, command, status):
        start = time.monotonic()
        done = self.run_script(command)
        self.assertEqual(done.returncode, status, done.stderr)
        return time.monotonic() - start


if __name__ == "__main__":
    unittest.main()
