#!/usr/bin/env python3
# ctest: FULL TIMEOUT 900 PROCESSORS 2 COST 200
"""The RDMA rail on the kernel's own RDMA stack, in the lab: the contract over real queue pairs, a file and an order flow
while the link is black-holed and returned, and what is said where the device cannot be used. Environment: TWINRAIL_BIN."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from lib import program

BOOT = program.ROOT / "lab" / "boot"
SCRIPT = program.ROOT / "tests" / "lib" / "lab_verbs.sh"
PROGRAMS = pathlib.Path(program.BIN).parent
LEAST_HOLES = 3
LEAST_SHARE = 0.2
LEAST_ORDERS = 20_000


class LabVerbs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="twinrail-lab-")
        cls.results = pathlib.Path(cls.folder.name)
        done = subprocess.run([BOOT, "-t", "600", "-o", cls.results, "--", "bash", SCRIPT, PROGRAMS],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            cls.folder.cleanup()
            raise AssertionError(f"the lab ended with {done.returncode}: {done.stdout}{done.stderr}")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def text(self, name):
        return (self.results / name).read_text(encoding="utf-8", errors="replace")

    def told(self, name):
        """(status, output, errors) of one command in the lab."""
        return int(self.text(name + ".status")), self.text(name + ".out"), self.text(name + ".err")

    def object_of(self, name):
        status, out, err = self.told(name)
        self.assertEqual(status, 0, f"{name}: {out}{err}")
        return json.loads(out)

    def verbs_share(self, rails, key):
        carried = {rail: counts[key] for rail, counts in rails.items()}
        print(f"  bytes {carried}")
        return carried.get("verbs", 0) / sum(carried.values())

    def test_the_contract_holds_over_queue_pairs(self):
        status, out, _ = self.told("contract")
        failed = re.findall(r"^\[  FAILED  \] (\S+)", out, re.M)
        self.assertEqual(status, 0, f"{sorted(set(failed))}\n{out[-4000:]}")
        passed = int(re.search(r"\[  PASSED  \] (\d+) tests", out).group(1))
        self.assertGreaterEqual(passed, 80, "cases over the device")
        self.assertNotRegex(out, r"SKIPPED.*\n.*VerbsDevice")
        print(f"  {passed} cases passed")

    def test_a_file_crosses_while_the_link_is_black_holed(self):
        sent = self.object_of("send")
        self.object_of("recv")
        self.assertEqual(self.text("sent.sha256"), self.text("received.sha256"))
        self.assertGreaterEqual(int(self.text("holes.transfer")), LEAST_HOLES)
        self.assertGreaterEqual(self.verbs_share(sent["rails"], "bytes_sent"), LEAST_SHARE)
        retreats = [one for one in sent["switches"] if one["kind"] == "retreat"]
        self.assertGreaterEqual(len(retreats), LEAST_HOLES, sent["switches"])

    def test_the_demo_runs_over_rdma_by_itself(self):
        report = self.object_of("demo_auto")
        self.assertTrue(report["ok"])
        self.assertGreaterEqual(self.verbs_share(report["rails"], "bytes"), LEAST_SHARE)
        self.assertGreaterEqual(report["upgrades"], 3)
        self.assertGreaterEqual(report["retreats"], 3)

    def test_the_demo_loses_nothing_while_the_link_is_black_holed(self):
        report = self.object_of("demo")
        self.assertTrue(report["ok"])
        self.assertGreaterEqual(report["orders"], LEAST_ORDERS)
        for key in ("lost", "doubled", "out_of_order"):
            self.assertEqual(report[key], 0, key)
        self.assertEqual(report["digest_client"], report["digest_server"])
        self.assertTrue(report["checker"]["clean"])
        self.assertGreaterEqual(int(self.text("holes.demo")), LEAST_HOLES)
        retreats = [one for one in report["switches"] if one["kind"] == "retreat"]
        print(f"  {len(retreats)} retreats in {self.text('holes.demo').strip()} holes")
        self.assertGreaterEqual(len(retreats), LEAST_HOLES, report["switches"])
        self.assertGreaterEqual(self.verbs_share(report["rails"], "bytes"), LEAST_SHARE)

    # Not every end of a connection leaves the connection manager as it was.
    def test_a_cable_that_is_pulled_is_told_by_its_port_and_the_rail_comes_back(self):
        report = self.object_of("cables")
        self.assertTrue(report["ok"])
        told = [one for one in report["switches"] if one["kind"] == "retreat" and
                "port_down" in (one["reason"], one["text"])]
        print("  " + ", ".join(f"{one['gap_ns'] / 1e6:.0f} ms {one['reason']} {one['text']}" for one in told))
        self.assertGreaterEqual(len(told), 2, report["switches"])
        self.assertGreaterEqual(report["upgrades"], 3, report["events"])

    def test_a_port_that_is_down_is_told_at_once(self):
        status, out, err = self.told("port_down")
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(err, r"^twinrail: --rail verbs: .*rxe\d port 1 is .*\[port_down\].*\n$")

    # Trap M1: memlock 64 KiB: the message names the limit and what is needed; TCP still works.
    def test_too_little_memlock_is_named_and_the_file_still_crosses(self):
        sent = self.object_of("limited")
        self.assertEqual(sent["rails"].get("verbs", {}).get("bytes_sent", 0), 0)
        status, _, err = self.told("forced")
        self.assertNotEqual(status, 0)
        self.assertIn("RLIMIT_MEMLOCK", err)
        self.assertIn("64KiB", err)


if __name__ == "__main__":
    program.skip_without_program()
    if not shutil.which("qemu-system-x86_64"):
        print("skipped: QEMU is not installed")
        sys.exit(77)
    if not os.access(PROGRAMS / "rail_test", os.X_OK):
        print("skipped: the tests are not built")
        sys.exit(77)
    unittest.main(verbosity=2)
