#!/usr/bin/env python3
# ctest: TIMEOUT 300 PROCESSORS 2 COST 30
"""`twinrail bench` measures what it was asked to measure, or says why not: also when its peer is killed at any phase."""

import os
import pathlib
import socket
import subprocess
import time
import unittest

from lib import program

NUMBERS = ("messages", "seconds", "messages_per_second", "bytes_per_second", "cpu_ns_per_message")
PERCENTILES = ("p50_ns", "p99_ns", "p999_ns")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connected(port):
    """Whether a client's TCP connection to the port stands."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return any(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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

    def early_client_killed(self, client, server, *same):
        """The server had perhaps not heard of it: it ends with an error in bounded time, or serves the next client."""
        program.kill(client.pid)
        client.communicate()
        try:
            server.wait(2)
        except subprocess.TimeoutExpired:
            done = self.client(*same, "-n", 100, seconds=20)
        else:
            done = None
        status, out, err = program.finish(server, 20)
        if status == 0:
            self.assertEqual(done and done.returncode, 0, done and done.stderr)
            return
        # On a busy machine it may hear of the end only now.
        self.assertEqual(status, 1, out + err)
        self.assertTrue(program.parse(self, out)["error"])
        program.one_line(self, "".join(line + "\n" for line in err.splitlines() if "waiting for a client" not in line))

    def reach(self, phase, server):
        if phase == "started":
            return
        program.wait_until(lambda: connected(self.port))
        if phase == "measuring":
            # Nothing before the first message costs the server so much.
            program.wait_until(lambda: cpu_seconds(server.pid) > 0.1)

    def kill_one(self, rail, test, phase, who, *deadline):
        with self.subTest(rail=rail, test=test, phase=phase, who=who):
            self.port = free_port()
            server = self.server("--rail", rail, *deadline)
            client = program.start("bench", "127.0.0.1", "--json", "-p", self.port, "--rail", rail, "--test", test,
                                   "-D", 60, *deadline)
            self.addCleanup(program.stop, client)
            self.reach(phase, server)
            if who == "server":
                self.killed(server, client)
            elif phase == "measuring":
                self.killed(client, server)
            else:
                self.early_client_killed(client, server, "--rail", rail, *deadline)

    def test_a_peer_killed_at_any_phase_is_an_error_in_bounded_time(self):
        for rail in ("tcp", "shm"):
            for test in ("latency", "rate"):
                for phase in ("started", "connected", "measuring"):
                    for who in ("server", "client"):
                        self.kill_one(rail, test, phase, who, "--session-deadline", "1s", "--connect-deadline", "3s")

    def test_the_bound_holds_by_default_too(self):
        self.kill_one("shm", "bandwidth", "measuring", "server")
        self.kill_one("tcp", "bandwidth", "measuring", "client")


if __name__ == "__main__":
    program.skip_without_program()
    unittest.main()
