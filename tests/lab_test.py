#!/usr/bin/env python3
# ctest: FULL TIMEOUT 600 PROCESSORS 2 COST 60
"""lab/boot: a command on a machine with two RDMA devices, what it hands back, and that nothing is left behind."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from lib import program, sources

BOOT = sources.ROOT / "lab" / "boot"
LAUNCHER = sources.ROOT / "twinrail"
GUEST_SCRIPT = sources.ROOT / "tests" / "lib" / "lab.sh"
SKIPPED = 77


def user_cache():
    if "TWINRAIL_LAB_CACHE" in os.environ:
        return pathlib.Path(os.environ["TWINRAIL_LAB_CACHE"])
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "twinrail-lab"


def prepare():
    """Fetches the kernel, where that can be had."""
    if not shutil.which("qemu-system-x86_64"):
        print("skipped: QEMU is not installed")
        sys.exit(SKIPPED)
    known = subprocess.run(["apt-cache", "show", "linux-image-amd64"], capture_output=True, check=False).returncode == 0
    if not known and not (user_cache() / "kernel").exists():
        print("skipped: this distribution has no linux-image-amd64")
        sys.exit(SKIPPED)
    done = subprocess.run([BOOT, "--prepare"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)


class Lab(unittest.TestCase):
    """With the user's kernel, but a cache of its own: another run on this computer is none of its business."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        for kept in ("kernel", "kvm"):
            if (user_cache() / kept).exists():
                (self.cache / kept).symlink_to(user_cache() / kept)
        self.environment = {**os.environ, "TWINRAIL_LAB_CACHE": str(self.cache)}
        self.addCleanup(self.nothing_left_behind)

    def machines(self):
        """Processes that run for this test's cache."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if b"qemu-system" in line and os.fsencode(self.cache) in line:
                found.append(int(entry.name))
        return found

    def nothing_left_behind(self):
        self.assertEqual(self.machines(), [])
        left = [p.name for p in self.cache.glob("*") if ".new." in p.name]
        left += [p.name for p in (self.cache / "runs").glob("*")]
        self.assertEqual(left, [])

    def boot(self, *arguments, command=BOOT, **options):
        options.setdefault("env", self.environment)
        return subprocess.run([str(command), *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=300, check=False, **options)

    def one_line(self, done, status):
        text = done.stderr.decode()
        self.assertEqual(done.returncode, status, text)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertTrue(text.startswith("lab: "), text)
        return text

    def start(self, *arguments):
        """A run whose machine is there."""
        run = subprocess.Popen([str(BOOT), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(program.stop, run)
        program.wait_until(self.machines)
        return run

    # --- Without a machine ---

    def test_wrong_usage_is_told_in_one_line(self):
        for arguments in ((), ("--",), ("-t",), ("-t", "soon", "true"), ("-t", "0", "true"), ("-m", "64", "true"),
                          ("-a", "magic", "true"), ("-o", "", "true"), ("-o", "/proc/nowhere", "true"),
                          ("--loud", "true"), ("--prepare", "true")):
            with self.subTest(arguments=arguments):
                self.assertIn("--help", self.one_line(self.boot(*arguments), 2))
        self.assertIn("--help", self.one_line(self.boot("lab", command=LAUNCHER), 2))
        self.assertIn(b"usage: lab/boot", self.boot("lab", "--help", command=LAUNCHER).stdout)

    def test_without_a_kernel_and_without_network_it_says_what_to_do(self):
        (self.cache / "kernel").unlink()
        programs = self.folder / "bin"
        programs.mkdir()
        for name, text in (("apt-get", "echo 'E: Failed to fetch it'; exit 100"),
                           ("apt-cache", "echo '  Depends: linux-image-6.1.0-1-amd64'")):
            (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        done = self.boot("true", env={**self.environment, "PATH": f"{programs}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 125)
        said = done.stderr.decode().splitlines()
        self.assertIn("Failed to fetch it", said[-1])
        self.assertIn(str(self.cache), said[-1])

    def test_an_unwritable_cache_is_named(self):
        done = self.boot("true", env={**self.environment, "TWINRAIL_LAB_CACHE": "/proc/nowhere"})
        self.assertIn("TWINRAIL_LAB_CACHE", self.one_line(done, 125))

    # --- With a machine that does not get far ---

    def test_the_watchdog_ends_the_machine(self):
        self.assertIn("-t", self.one_line(self.boot("-t", "2", "sleep 1000"), 124))

    def test_a_signal_ends_the_machine(self):
        run = self.start("sleep 1000")
        run.send_signal(signal.SIGTERM)
        self.assertEqual(program.finish(run)[0], -signal.SIGTERM)

    def test_the_machine_of_a_killed_run_ends_and_the_next_run_clears_up(self):
        run = self.start("sleep 1000")
        run.kill()
        run.wait()
        program.wait_until(lambda: not self.machines())
        self.assertNotEqual(list((self.cache / "runs").iterdir()), [])
        self.boot("-t", "1", "true")

    # --- With a machine ---

    def test_arguments_and_success_pass_through(self):
        done = self.boot("lab", "--", "printf", "%s|", "two words", "$HOME", "", "'", command=LAUNCHER)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"two words|$HOME||'|", b""))

    def test_a_kernel_that_dies_is_the_labs_failure(self):
        done = self.boot("echo before; echo c >/proc/sysrq-trigger; sleep 60")
        self.assertEqual((done.returncode, done.stdout), (125, b"before\n"), done.stderr)
        self.assertIn(b"Kernel panic", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_devices_links_and_what_is_handed_back(self):
        results = self.folder / "results"
        done = self.boot("-t", 200, "-o", results, "--", "bash", "-c", GUEST_SCRIPT.read_text(encoding="utf-8"))
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(done.stderr, b"to stderr\n")
        self.assertTrue(done.stdout == bytes(range(256)) + bytes(2000000), "the output differs")

        def found(name):
            return (results / name).read_text(encoding="utf-8")

        def numbers(name):
            return [int(line) for line in found(name).split()]

        def loss(name):
            return float(re.search(r"([0-9.]+)% packet loss", found(name)).group(1))

        self.assertEqual(found("uid"), "0\n")
        self.assertEqual(found("root-is-writable"), "1\n")
        environment = found("environment")
        for expected in ("TWINRAIL_LAB=1\n", "HOME=/tmp\n", "TWINRAIL_LAB_ROCE1=10.9.0.2\n"):
            self.assertIn(expected, environment)
        self.assertNotIn("TWINRAIL_LAB_CACHE", environment)

        self.assertEqual(found("states"), "4: ACTIVE\n" * 2)
        self.assertIn("status 0\n", found("pingpong"))
        for before, after in zip(numbers("sent-before"), numbers("sent-after")):
            # 200 messages and their acknowledgements; a loop-back would count for one device only.
            self.assertGreaterEqual(after - before, 200)

        self.assertEqual(found("states-down"), "1: DOWN\n4: ACTIVE\n")
        self.assertEqual(found("states-cut-both"), "1: DOWN\n" * 2)
        self.assertEqual(found("states-cut"), "4: ACTIVE\n1: DOWN\n")
        self.assertNotRegex(found("ping-cut"), "[1-9] packets received")
        self.assertEqual(found("tcp-cut"), "over the other link\n")
        self.assertEqual(found("states-returned"), "4: ACTIVE\n" * 2)
        self.assertIn("status 0\n", found("pingpong-returned"))

        self.assertEqual(found("states-blackhole"), "4: ACTIVE\n" * 2)
        self.assertEqual(loss("ping-blackhole"), 100)
        self.assertEqual(found("tcp-blackhole"), "over the other link\n")
        self.assertEqual(found("show-blackhole").count("loss 100%"), 2)
        self.assertEqual(loss("ping-healed"), 0)

        fastest = float(re.search(r"min/avg/max = ([0-9.]+)/", found("ping-delay")).group(1))
        self.assertGreaterEqual(fastest, 60)
        self.assertLess(fastest, 200)
        # 64 % of round trips of 50; four deviations to either side.
        self.assertGreater(loss("ping-loss"), 36)
        self.assertLess(loss("ping-loss"), 92)
        self.assertNotIn("loss", found("shown"))

        self.assertIn("Couldn't register MR", found("memlock"))
        self.assertRegex(found("links-usage"), r"^links: there is no command sever .*\n2\n$")


if __name__ == "__main__":
    prepare()
    unittest.main()
