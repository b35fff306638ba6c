#!/usr/bin/env python3
# ctest: TIMEOUT 300 PROCESSORS 2 COST 40
"""`twinrail demo`: a real order flow moves between rails that are cut under it, and nothing is lost."""

import pathlib
import tempfile
import time
import unittest

from lib import program

COUNTS = ("lost", "doubled", "out_of_order")
RAIL_FIELDS = ("bytes", "p50_ns", "p99_ns", "p999_ns", "messages_per_second", "cpu_seconds_per_10k")

# Keeps the header of each log, writes an end record of none behind it, and lets the real checker judge that.
EMPTYING_CHECKER = f"""
import struct, subprocess, sys
for path in sys.argv[2::2]:
    with open(path, "r+b") as log:
        log.truncate(32)
        log.seek(32)
        log.write(struct.pack("<QQ", 3 << 62, 0))
real = {str(program.ROOT / "tools" / "checker" / "check_logs.py")!r}
sys.exit(subprocess.run([sys.executable, real, *sys.argv[1:]]).returncode)
"""


class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def demo(self, *arguments, **options):
        return program.run("demo", *arguments, env=program.environment(TMPDIR=self.folder.name), **options)

    def nothing_left_behind(self):
        self.assertEqual(list(pathlib.Path(self.folder.name).iterdir()), [])

    def check_report(self, done, orders, least_orders):
        self.assertEqual(done.returncode, 0, done.stderr)
        report = program.parse(self, done.stdout)
        self.assertTrue(report["ok"])
        self.assertEqual(report["orders"], orders)
        self.assertGreaterEqual(report["orders"], least_orders)
        self.assertEqual(report["answers"], orders)
        for count in COUNTS:
            self.assertEqual(report[count], 0, count)
        self.assertEqual(report["digest_client"], report["digest_server"])
        self.assertRegex(report["digest_client"], "^[0-9a-f]{16}$")
        checker = report["checker"]
        self.assertTrue(checker["clean"], checker)
        self.assertEqual((checker["orders"], checker["answers"]), (orders, orders))
        return report

    def check_switches(self, report):
        switches = report["switches"]
        retreats = [s for s in switches if s["to"] == "tcp"]
        upgrades = [s for s in switches if s["to"] != "tcp"]
        self.assertGreaterEqual(len(retreats), 3)
        self.assertGreaterEqual(len(upgrades), 3)
        self.assertEqual((report["retreats"], report["upgrades"]), (len(retreats), len(upgrades)))
        self.assertGreaterEqual(report["cuts"]["error"] + report["cuts"]["silent"], 3)
        self.assertEqual(report["cuts"]["error"], report["cuts"]["silent"])
        before, reasons = "tcp", []
        for switch in switches:
            self.assertEqual(switch["from"], before)
            self.assertNotEqual(switch["to"], before)
            before = switch["to"]
            why = switch["text"] if switch["reason"] == "peer_retired" else switch["reason"]
            self.assertIn(why, ("upgraded", "rail_error", "rail_silent"), switch)
            reasons.append(why)
            # After the last answer there is no gap to measure.
            self.assertGreater(switch["gap_ns"], 0 if report["orders"] >= 10_000 else -1, switch)
            self.assertLess(switch["gap_ns"], 2_000_000_000, switch)
        self.assertGreaterEqual(reasons.count("rail_silent"), report["cuts"]["silent"])
        self.assertGreaterEqual(reasons.count("rail_error"), report["cuts"]["error"])
        if report["orders"] >= 10_000:
            self.assertGreater(report["swallowed"], 0)
            self.assertGreater(report["landed_late"], 0)

    def check_rails(self, report):
        rails = report["rails"]
        self.assertEqual(sorted(rails), ["shm", "tcp"])
        for rail in rails.values():
            for field in RAIL_FIELDS:
                self.assertGreater(rail[field], 0, field)
            self.assertLessEqual(rail["p50_ns"], rail["p99_ns"])
            self.assertLessEqual(rail["p99_ns"], rail["p999_ns"])
        # Every message is 64 bytes and a header of 8, and each arrived by one rail.
        all_bytes = sum(rail["bytes"] for rail in rails.values())
        self.assertGreaterEqual(all_bytes, 2 * report["orders"] * 72)
        self.assertGreaterEqual(rails["shm"]["bytes"] / all_bytes, 0.2)
        self.assertGreaterEqual(rails["tcp"]["bytes"] / all_bytes, 0.1)

    def test_a_million_orders_survive_four_cuts(self):
        began = time.monotonic()
        done = self.demo("--json")
        self.assertLess(time.monotonic() - began, 60)
        report = self.check_report(done, 1_000_000, 1_000_000)
        self.check_switches(report)
        self.check_rails(report)
        self.assertEqual(done.stderr, "")
        self.nothing_left_behind()

    def test_the_sample_file_survives_four_cuts(self):
        report = self.check_report(self.demo("--json", "--input", program.SAMPLE), 100_000, 100_000)
        self.check_switches(report)
        self.check_rails(report)
        self.nothing_left_behind()

    def test_a_file_and_its_seed_give_the_same_books(self):
        of_file = program.parse(self, self.demo("--json", "--input", program.SAMPLE).stdout)
        of_seed = program.parse(self, self.demo("--json", "--seed", 20260105, "--orders", 100_000, "--cuts", 1).stdout)
        self.assertEqual(of_file["digest_server"], of_seed["digest_server"])

    def test_few_orders_still_see_every_cut(self):
        for orders in (1, 10, 500):
            report = self.check_report(self.demo("--json", "--orders", orders), orders, 1)
            self.check_switches(report)

    def test_the_table_says_what_the_json_says(self):
        done = self.demo("--orders", 20_000)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("orders", "lost", "out of order", "p99.9", "messages/s", "upgraded", "rail_error", "rail_silent",
                     "checker:", "clean", "eager", "20,000"):
            self.assertIn(word, done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_tcp_alone_is_a_clean_run_that_says_so(self):
        report = self.check_report(self.demo("--json", "--rail", "tcp", "--orders", 20_000), 20_000, 20_000)
        self.assertEqual(report["switches"], [])
        self.assertEqual(list(report["rails"]), ["tcp"])
        self.assertIn("tcp only", self.demo("--rail", "tcp", "--orders", 10).stdout)

    # Trap T2: no /dev/infiniband.
    def test_without_rdma_asking_for_it_fails_at_once_and_says_why(self):
        began = time.monotonic()
        done = self.demo("--rail", "verbs")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rail verbs", program.one_line(self, done.stderr))
        self.assertEqual(done.stdout, "")
        self.assertLess(time.monotonic() - began, 5)

    def test_a_malformed_line_is_told_with_its_place_and_nothing_is_sent(self):
        bad = pathlib.Path(self.folder.name, "bad.csv")
        lines = program.SAMPLE.read_text().splitlines()[:10]
        lines[6] = lines[6].replace(",add,", ",modify,").replace(",cancel,", ",modify,").replace(",execute,", ",modify,")
        bad.write_text("\n".join(lines) + "\n")
        done = self.demo("--input", bad)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        line = program.one_line(self, done.stderr)
        self.assertIn("bad.csv:7:", line)
        self.assertIn("modify", line)

    def test_an_unreadable_file_is_told_in_one_line(self):
        done = self.demo("--input", self.folder.name + "/nothing.csv")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing.csv", program.one_line(self, done.stderr))

    def test_kept_logs_are_what_the_checker_reads(self):
        keep = pathlib.Path(self.folder.name, "kept")
        done = self.demo("--orders", 1000, "--keep", keep)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(p.name for p in keep.iterdir()), ["client.log", "orders.csv", "server.log"])

    def test_a_checker_that_saw_nothing_proves_nothing(self):
        """Two valid logs without a line have no faults."""
        stub = pathlib.Path(self.folder.name, "checker.py")
        stub.write_text(EMPTYING_CHECKER)
        done = self.demo("--json", "--orders", 1000, "--checker", stub)
        self.assertEqual(done.returncode, 1, done.stderr)
        report = program.parse(self, done.stdout)
        self.assertTrue(report["checker"]["clean"], report["checker"])
        self.assertFalse(report["ok"])
        self.assertIn("0 of 1,000 orders", report["error"])
        done = self.demo("--orders", 1000, "--checker", stub)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the checker saw in the logs 0 of 1,000 orders", done.stdout.splitlines()[-1])

    def test_a_killed_process_ends_the_demo_with_an_error_and_no_orphans(self):
        for role in ("server", "client"):
            process = program.start("demo", env=program.environment(TMPDIR=self.folder.name))
            roles = lambda: {r: pid for pid, args in program.children_of(process.pid)
                             for r in ("server", "client") if f"--role {r}" in args}
            both = program.wait_until(lambda: roles() if len(roles()) == 2 else None)
            time.sleep(0.2)
            program.kill(both[role])
            status, out, err = program.finish(process, 20)
            self.assertEqual(status, 1, out + err)
            self.assertIn(role, program.one_line(self, err))
            for pid in both.values():
                self.assertTrue(program.wait_until(lambda pid=pid: program.gone(pid), 5))
            self.nothing_left_behind()

    def test_a_killed_parent_takes_its_children_along(self):
        process = program.start("demo", env=program.environment(TMPDIR=self.folder.name))
        both = program.wait_until(lambda: len(program.children_of(process.pid)) == 2 and
                                  [pid for pid, _ in program.children_of(process.pid)])
        program.kill(process.pid)
        process.communicate()
        for pid in both:
            self.assertTrue(program.wait_until(lambda pid=pid: program.gone(pid), 5))

    def test_what_a_killed_demo_left_goes_with_the_next_one_and_nothing_else(self):
        foreign = pathlib.Path(self.folder.name, "twinrail-abcdef")
        foreign.mkdir()
        killed, live = (program.start("demo", env=program.environment(TMPDIR=self.folder.name)) for _ in range(2))
        self.addCleanup(program.stop, live)
        for process in (killed, live):
            program.wait_until(lambda process=process: len(program.children_of(process.pid)) == 2)
        program.kill(killed.pid)
        killed.communicate()
        self.assertEqual(self.demo("--orders", 10).returncode, 0)
        left = set(pathlib.Path(self.folder.name).iterdir()) - {foreign}
        self.assertEqual(len(left), 1, left)
        self.assertTrue((left.pop() / "server.log").exists())
        self.assertTrue(foreign.exists())
        live.terminate()
        program.finish(live, 20)
        self.assertEqual(list(pathlib.Path(self.folder.name).iterdir()), [foreign])

    def test_an_interrupted_demo_cleans_up(self):
        process = program.start("demo", env=program.environment(TMPDIR=self.folder.name))
        program.wait_until(lambda: len(program.children_of(process.pid)) == 2)
        process.terminate()
        status, _, err = program.finish(process, 20)
        self.assertEqual(status, 128 + 15)
        self.assertIn("interrupted", program.one_line(self, err))
        self.nothing_left_behind()


if __name__ == "__main__":
    program.skip_without_program()
    unittest.main()
