#!/usr/bin/env python3
# ctest: TIMEOUT 300 COST 15
"""bench/compare.py keeps good rounds, drops bad ones with the reason, and comes to an end, shown with made-up tools."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TWINRAIL_ROOT", pathlib.Path(__file__).resolve().parents[1]))

# Both programs read their next answers from a file, so that a test scripts a whole run.
REFERENCE = """#!{python}
import json, os, pathlib, sys
script = pathlib.Path(__file__).with_name("script.json")
state = json.loads(script.read_text())
what = sys.argv[1]
with open(script.with_name("calls"), "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + chr(10))
if what == "probe":
    spin, placement = state["probes"].pop(0) if len(state["probes"]) > 1 else state["probes"][0]
    script.write_text(json.dumps(state))
    part = {{"p50_ns": spin, "stalls_over_1ms": 0}}
    print(json.dumps({{"placement": placement, "spin": part, "pause": part}}))
elif what in ("ping-pong", "tcp-latency"):
    print(json.dumps({{"round_trip": {{"p50_ns": 500, "p99_ns": 900, "cpu_ns_per_round_trip": 500}}}}))
else:
    print(json.dumps({{"messages_per_second": 1e7, "producer_cpu_ns_per_message": 60}}))
"""
TOOL = """#!{python}
import json, pathlib, sys, time
state = json.loads(pathlib.Path(__file__).with_name("script.json").read_text())
client = "127.0.0.1" in sys.argv
with open(pathlib.Path(__file__).with_name("calls"), "a") as calls:
    calls.write("twinrail " + " ".join(sys.argv[1:]) + chr(10))
if not client:
    time.sleep(state.get("server_seconds", 0.05))
    sys.exit(0)
if "error" in state:
    print(state["error"], file=sys.stderr)
    sys.exit(1)
print(json.dumps(state["ours"]))
"""
CORES = [500, "separate-cores"]
SIBLINGS = [140, "siblings"]


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        for name, text in (("twinrail", TOOL), ("twinrail_reference", REFERENCE)):
            (self.path / name).write_text(text.format(python=sys.executable))
            (self.path / name).chmod(0o755)

    def compare(self, *arguments, one_cpu=False, **state):
        state.setdefault("probes", [CORES])
        state.setdefault("ours", {"p50_ns": 600, "messages_per_second": 6e6})
        (self.path / "script.json").write_text(json.dumps(state))
        environment = {**os.environ, "TWINRAIL_BIN": str(self.path / "twinrail")}
        environment.pop("TWINRAIL_REFERENCE", None)
        # The machine that runs the tests is busy; only the test of foreign load cares.
        if "--foreign-limit" not in arguments:
            arguments = (*arguments, "--foreign-limit", "1000")
        one_cpu = (lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})) if one_cpu else None
        done = subprocess.run([sys.executable, str(ROOT / "bench" / "compare.py"), *arguments, "--json", "--pause", "0",
                               "--rounds", "3", "-D", "0.01"], env=environment, capture_output=True, text=True,
                              timeout=60, check=False, preexec_fn=one_cpu)
        found = json.loads(done.stdout) if done.stdout else {"results": [], "error": done.stderr}
        return done.returncode, found

    def test_ratio_within_the_limit(self):
        status, found = self.compare("shm-latency", "shm-rate")
        latency, rate = found["results"]
        self.assertEqual(status, 0, found)
        self.assertEqual((latency["valid_rounds"], latency["total_rounds"]), (3, 3))
        self.assertAlmostEqual(latency["ratio"]["median"], 1.2)
        self.assertAlmostEqual(rate["ratio"]["median"], 0.6)
        self.assertEqual(rate["verdict"], "ok")

    def test_ratio_over_the_limit_is_status_1(self):
        status, found = self.compare("tcp-latency", ours={"p50_ns": 600})
        self.assertEqual((status, found["results"][0]["verdict"]), (1, "over the limit"))
        status, found = self.compare("shm-rate", ours={"messages_per_second": 4e6})
        self.assertEqual((status, found["results"][0]["verdict"]), (1, "below the limit"))

    def test_sibling_placement_counts_for_tcp_only(self):
        status, found = self.compare("shm-latency", "--attempts", "5", probes=[SIBLINGS])
        self.assertEqual(status, 3)
        self.assertEqual(found["results"][0]["dropped"], {"placement siblings": 5})
        self.assertEqual(found["results"][0]["verdict"], "too few valid rounds")
        status, found = self.compare("tcp-latency", probes=[SIBLINGS], ours={"p50_ns": 510})
        self.assertEqual((status, found["results"][0]["valid_rounds"]), (0, 3))

    def test_a_flip_during_a_round_drops_it(self):
        status, found = self.compare("shm-latency", probes=[CORES, SIBLINGS, CORES, [650, "separate-cores"], CORES])
        self.assertEqual(status, 0)
        self.assertEqual(found["results"][0]["dropped"], {"probes differ": 2})
        self.assertEqual((found["results"][0]["valid_rounds"], found["results"][0]["total_rounds"]), (3, 5))

    def test_foreign_load_drops_a_round(self):
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burner:
            try:
                status, found = self.compare("tcp-latency", "--foreign-limit", "0.15", "--attempts", "3")
            finally:
                burner.kill()
        self.assertEqual((status, found["results"][0]["dropped"]), (3, {"foreign load": 3}))

    def test_the_baseline_alternates_its_place_and_publishes_as_often(self):
        self.compare("shm-rate", "--post-list", "16",
                     ours={"messages_per_second": 6e6, "messages_per_publication": 7.6})
        calls = (self.path / "calls").read_text().splitlines()
        order = [c.split()[0] for c in calls if c.startswith("ring") or (c.startswith("twinrail") and "127." in c)]
        ring, tool = "ring", "twinrail"
        self.assertEqual(order, [ring, tool, tool, ring, tool, ring, ring, tool, ring, tool, tool, ring])
        every = [c.split()[c.split().index("-e") + 1] for c in calls if c.startswith("ring")]
        self.assertEqual(every, ["16", "8", "8", "8", "8", "8"])

    def test_a_failing_tool_ends_the_comparison_with_its_reason(self):
        status, found = self.compare("shm-latency", error="twinrail: port in use")
        self.assertEqual(status, 1)
        self.assertIn("port in use", found["error"])
        status, found = self.compare("shm-latency", ours={"p99_ns": 3})
        self.assertEqual(status, 1)
        self.assertIn("p50_ns", found["error"])

    def test_a_server_that_stays_is_ended(self):
        status, found = self.compare("tcp-latency", "--attempts", "1", "--least-valid", "1", server_seconds=100,
                                     ours={"p50_ns": 500})
        self.assertEqual((status, found["results"][0]["valid_rounds"]), (0, 1), found)

    def test_usage(self):
        self.assertEqual(self.compare("nonsense")[0], 2)
        self.assertEqual(self.compare("--cpus", "1")[0], 2)
        self.assertEqual(self.compare("--cpus", "0,99999")[0], 2)

    def test_one_cpu_says_nothing(self):
        status, found = self.compare("shm-latency", one_cpu=True)
        self.assertEqual(status, 3)
        self.assertIn("needs two CPUs", found["error"])
        self.assertEqual(self.compare("shm-latency", "--cpus=-1,-1", one_cpu=True)[0], 0)


if __name__ == "__main__":
    unittest.main()
