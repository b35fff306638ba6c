#!/usr/bin/env python3
# ctest: TIMEOUT 180 PROCESSORS 2 COST 15
"""`twinrail bench` measures what it was asked to measure, or says why not: also when its peer is killed at any phase."""

import socket
import time
import unittest

from lib import program

NUMBERS = ("messages", "seconds", "messages_per_second", "bytes_per_second", "cpu_ns_per_message")
PERCENTILES = ("p50_ns", "p99_ns", "p999_ns")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench(unittest.TestCase):
    def setUp(self):
        self.port = free_port()

    def server(self, *arguments):
        process = program.start("bench", "--json", "-p", self.port, *arguments)
        self.addCleanup(program.stop, process)
        program.wait_for_line(process, "twinrail: waiting for a client on ")
        return process

    def client(self, *arguments, **options):
        return program.run("bench", "127.0.0.1", "--json", "-p", self.port, *arguments, **options)

    def pair(self, *arguments):
        server = self.server(*[a for a in arguments if a in ("--rail", "tcp", "shm", "-e")])
        done = self.client(*arguments)
        status, out, err = program.finish(server)
        self.assertEqual((done.returncode, status), (0, 0), done.stderr + err)
        return program.parse(self, done.stdout), program.parse(self, out)

    def check(self, report, rail, test):
        self.assertTrue(report["ok"])
        self.assertEqual((report["rail"], report["test"]), (rail, test))
        for name in NUMBERS:
            self.assertGreater(report[name], 0, name)
        if test == "latency":
            for name in PERCENTILES:
                self.assertGreater(report[name], 0, name)
            self.assertLessEqual(report["p50_ns"], report["p99_ns"])
        else:
            for name in PERCENTILES:
                self.assertIsNone(report[name])
        self.assertEqual(report["switches"], 0)
        self.assertGreater(report["rails"][rail]["bytes_sent"], report["messages"] * report["size_bytes"] * 0.9)

    def test_every_test_on_every_rail(self):
        for rail in ("tcp", "shm"):
            for test, messages, size in (("latency", 5000, 64), ("rate", 50_000, 64), ("bandwidth", 2000, 65536)):
                with self.subTest(rail=rail, test=test):
                    near, far = self.pair("--rail", rail, "--test", test, "-n", messages)
                    self.check(near, rail, test)
                    self.assertEqual((near["messages"], near["size_bytes"]), (messages, size))
                    self.assertGreaterEqual(far["messages"], messages)
                    self.assertEqual((far["side"], far["rail"]), ("server", rail))

    def test_perftests_letters(self):
        near, _ = self.pair("--rail", "shm", "--test", "rate", "-D", 1, "-s", 256, "-l", 32, "-q", 2, "-t", 512)
        self.assertGreater(near["seconds"], 0.9)
        self.assertLess(near["seconds"], 3)
        self.assertEqual((near["size_bytes"], near["post_list"], near["sessions"], near["depth"]), (256, 32, 2, 512))
        near, _ = self.pair("--rail", "shm", "-n", 2000, "-e")
        self.check(near, "shm", "latency")
        near, _ = self.pair("--rail", "tcp", "-n", 2000, "-t", 16)
        self.check(near, "tcp", "latency")

    def test_the_table(self):
        self.server("--rail", "shm")
        done = program.run("bench", "127.0.0.1", "-p", self.port, "--rail", "shm", "-n", 1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("latency", "shm", "p99.9", "1,000"):
            self.assertIn(word, done.stdout)

    # Trap T2: asking for a rail that is not there fails fast, with the reason.
    def test_a_rail_that_cannot_be_had_fails_fast_with_the_reason(self):
        for side in ((), ("127.0.0.1",)):
            done = program.run("bench", *side, "--json", "-p", self.port, "--rail", "verbs", seconds=10)
            self.assertEqual(done.returncode, 2)
            report = program.parse(self, done.stdout)
            self.assertFalse(report["ok"])
            self.assertIn("verbs", report["error"])
        # The server has TCP only.
        self.server("--rail", "tcp")
        done = self.client("--rail", "shm", seconds=20)
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not come up", program.parse(self, done.stdout)["error"])

    def test_without_a_server_it_ends_at_its_deadline(self):
        done = self.client("--connect-deadline", "500ms", seconds=20)
        self.assertEqual(done.returncode, 1)
        self.assertFalse(program.parse(self, done.stdout)["ok"])

    def killed(self, victim, survivor):
        program.kill(victim.pid)
        victim.communicate()
        began = time.monotonic()
        status, out, err = program.finish(survivor, 20)
        self.assertEqual(status, 1, out + err)
        report = program.parse(self, out)
        self.assertFalse(report["ok"])
        self.assertTrue(report["error"])
        self.assertLess(time.monotonic() - began, 15)

    def kill_one(self, rail, test, phase_s, who, *deadline):
        with self.subTest(rail=rail, test=test, phase_s=phase_s, who=who):
            server = self.server("--rail", rail, *deadline)
            client = program.start("bench", "127.0.0.1", "--json", "-p", self.port, "--rail", rail, "--test", test, "-D", 60,
                                   *deadline)
            time.sleep(phase_s)
            if who == "server":
                return self.killed(server, client)
            if phase_s > 0.1:
                return self.killed(client, server)
            # Before it connected, the server rightly waits for another.
            for process in (client, server):
                program.kill(process.pid)
                process.communicate()
            return None

    def test_a_peer_killed_at_any_phase_is_an_error_in_bounded_time(self):
        for rail in ("tcp", "shm"):
            for test in ("latency", "rate"):
                for phase_s in (0, 0.02, 0.05, 0.3):
                    for who in ("server", "client"):
                        self.kill_one(rail, test, phase_s, who, "--session-deadline", "300ms", "--connect-deadline", "1s")

    def test_the_bound_holds_by_default_too(self):
        self.kill_one("shm", "bandwidth", 0.5, "server")
        self.kill_one("tcp", "bandwidth", 0.5, "client")


if __name__ == "__main__":
    program.skip_without_program()
    unittest.main()
