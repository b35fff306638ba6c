#!/usr/bin/env python3
# ctest: TIMEOUT 60 COST 3
"""What is wrong with a command line is one line on stderr and exit status 2; knobs come from where they were set."""

import os
import pathlib
import socket
import tempfile
import unittest

from lib import program


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def refused(self, *arguments, saying, env=None):
        done = program.run(*arguments, env=env or program.environment(), seconds=20)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        line = program.one_line(self, done.stderr)
        for word in [saying] if isinstance(saying, str) else saying:
            self.assertIn(word, line)

    def write(self, name, text):
        path = pathlib.Path(self.folder.name, name)
        path.write_text(text)
        return path

    def test_version_and_help(self):
        done = program.run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^twinrail \d+\.\d+\.\d+\n$")
        for command in ((), ("demo",), ("send",), ("recv",), ("bench",), ("knobs",)):
            done = program.run(*command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertIn("--help", done.stdout)

    def test_help_fits_a_terminal(self):
        for command in ((), ("demo",), ("send",), ("recv",), ("bench",), ("knobs",), ("simulate",)):
            for line in program.run(*command, "--help").stdout.splitlines():
                self.assertLessEqual(len(line), 80, f"{command}: {line}")

    def test_what_is_unknown_is_named(self):
        self.refused(saying="twinrail demo")
        self.refused("dance", saying="dance")
        self.refused("--dance", saying="--dance")
        for command in (("demo",), ("send", "localhost:1"), ("recv", "--listen", "127.0.0.1:0"), ("bench",), ("knobs",)):
            self.refused(*command, "--dance", saying=["--dance", command[0]])

    def test_bad_values_are_named(self):
        self.refused("demo", "--orders", "many", saying=["--orders", "many"])
        self.refused("demo", "--rail", "smoke", saying="smoke")
        self.refused("send", "localhost:1", "--cut-every", "soon", saying=["--cut-every", "soon"])
        self.refused("send", "localhost:1", "--cut-every", "0", saying=["--cut-every", "above 0"])
        self.refused("send", "localhost:1", "--cut-every", "0ms", saying=["--cut-every", "above 0"])
        for output in ((), ("--output", "-"), ("--output", "")):
            self.refused("recv", "--listen", "127.0.0.1:0", "--json", *output, saying=["--json", "--output"])
        self.refused("send", "nowhere", saying="nowhere")
        self.refused("recv", saying="--listen")
        self.refused("recv", "--listen", "nowhere", saying="nowhere")
        self.refused("bench", "-s", "some", saying=["-s", "some"])
        self.refused("bench", "--test", "speed", saying="speed")
        self.refused("bench", "-c", "9999", saying="-c")
        for number in ("-1", "0", "9" * 30, "1e3", "nan", "", "\u0661"):
            self.refused("bench", "-n", number, saying=["-n", number])
        self.refused("demo", "--cuts", 10**11, saying=["--cuts", "10000"])
        self.refused("demo", "--checker", "/none", saying=["--checker", "/none"])
        self.refused("bench", "-p", "65536", saying=["-p", "65535"])
        self.refused("bench", "-q", 10**9, saying="-q")
        self.refused("bench", "-s", 0, saying="-s")
        self.refused("bench", "-s", "1TiB", saying="-s 1099511627776")
        self.refused("bench", "-t", 2**63, saying=f"-t {2**63}")
        self.refused("bench", "-D", 0, saying="-D")
        self.refused("bench", "-c", -5, saying="-c")
        self.refused("demo", "--session-suspicion", "5", saying="--session-suspicion")
        self.refused("demo", "--session-send-ring", "1000", saying="1000")

    def test_ports_in_use_are_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused("recv", "--listen", f"127.0.0.1:{port}", saying=str(port))
            self.refused("bench", "-p", str(port), saying=str(port))

    def test_files_that_cannot_be_read_or_written_are_named(self):
        missing = self.folder.name + "/missing"
        self.refused("demo", "--input", missing, saying=missing)
        self.refused("send", "127.0.0.1:1", missing, saying=missing)
        self.refused("send", "127.0.0.1:1", self.folder.name, saying=self.folder.name)
        self.refused("recv", "--listen", "127.0.0.1:0", "--output", missing + "/file", saying=missing)
        self.refused("knobs", "--config", missing, saying=missing)


class TheKnobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.config = os.path.join(self.folder.name, "twinrail.toml")

    def knobs(self, *arguments, **variables):
        done = program.run("knobs", "--json", *arguments, env=program.environment(**variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        return {knob["knob"]: knob for knob in program.parse(self, done.stdout)}

    def write(self, text):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)
        return self.config

    def refused(self, *arguments, saying, **variables):
        done = program.run("knobs", *arguments, env=program.environment(**variables))
        self.assertEqual(done.returncode, 2, done.stdout)
        line = program.one_line(self, done.stderr)
        for word in saying:
            self.assertIn(word, line)

    def test_each_has_a_default_a_meaning_and_a_variable(self):
        knobs = self.knobs()
        self.assertGreater(len(knobs), 15)
        for knob in knobs.values():
            self.assertEqual(knob["value"], knob["default"])
            self.assertEqual(knob["source"], "default")
            self.assertTrue(knob["meaning"])
            self.assertEqual(knob["variable"], "TWINRAIL_" + knob["knob"].replace(".", "_").upper())
            self.assertEqual(knob["flag"], "--" + knob["knob"].replace(".", "-").replace("_", "-"))

    def test_the_later_source_wins(self):
        name = "session.suspicion"
        self.assertEqual(self.knobs()[name]["value"], "10ms")
        of_environment = self.knobs(TWINRAIL_SESSION_SUSPICION="5ms")[name]
        self.assertEqual((of_environment["value"], of_environment["source"]), ("5ms", "environment"))
        config = self.write('[session]\nsuspicion = "6ms"\n')
        of_file = self.knobs("--config", config, TWINRAIL_SESSION_SUSPICION="5ms")[name]
        self.assertEqual((of_file["value"], of_file["source"], of_file["where"]), ("6ms", "file", config + ":2"))
        of_flag = self.knobs("--config", config, "--session-suspicion", "7ms", TWINRAIL_SESSION_SUSPICION="5ms")[name]
        self.assertEqual((of_flag["value"], of_flag["source"]), ("7ms", "command line"))

    def test_values_have_units_or_are_auto(self):
        knobs = self.knobs("--session-send-ring", "1m", "--engine-cpu", "auto", "--engine-idle", "busy_spin",
                           "--breaker-preset", "eager", "--breaker-max-delay", "1s")
        self.assertEqual(knobs["session.send_ring"]["value"], "1MiB")
        self.assertEqual(knobs["engine.cpu"]["value"], "auto")
        self.assertEqual(knobs["engine.idle"]["value"], "busy_spin")
        self.assertEqual(knobs["breaker.first_delay"]["value"], "2ms")
        self.assertEqual(knobs["breaker.max_delay"]["value"], "1s")

    def test_what_cannot_be_meant_is_refused_with_its_place(self):
        self.refused(saying=["TWINRAIL_SESSION_SUSPICOIN"], TWINRAIL_SESSION_SUSPICOIN="5ms")
        self.refused(saying=["TWINRAIL_SESSION_SUSPICION", "soon"], TWINRAIL_SESSION_SUSPICION="soon")
        self.refused("--config", self.write("[session]\n\nsuspicoin = 5\n"), saying=[":3", "session.suspicoin"])
        self.refused("--config", self.write('[session]\nsuspicion = "soon"\n'), saying=[":2", "soon"])
        self.refused("--config", self.write("[session\n"), saying=[self.config + ":1"])
        self.refused("--config", self.write("suspicion = 5\n"), saying=["suspicion", "section"])
        self.refused("--config", self.folder.name, saying=[self.folder.name, "no file"])

    def test_a_knob_given_twice_takes_the_last_value(self):
        knobs = self.knobs("--session-suspicion", "7ms", "--session-suspicion", "8ms")
        self.assertEqual(knobs["session.suspicion"]["value"], "8ms")


if __name__ == "__main__":
    program.skip_without_program()
    unittest.main()
