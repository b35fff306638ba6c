#!/usr/bin/env python3
# ctest: TIMEOUT 120 COST 8
"""Strangers at the port, streams that are closed or full, limits, signals: each ends what it hits, in order and in time."""

import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from lib import program, transfer
from lib.transfer import MIB, digest


def limited(which, value):
    return lambda: resource.setrlimit(which, (value, value))


class Stranger:
    """A server that is not ours: `behave` gets each connection."""

    def __init__(self, test, behave):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        test.addCleanup(self.socket.close)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.behave = behave
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.attend, args=(connection,), daemon=True).start()

    def attend(self, connection):
        with connection:
            try:
                self.behave(connection)
            except OSError:
                pass


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


def speak_http(connection):
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def say_nothing(connection):
    connection.recv(1000)
    time.sleep(20)


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Abuse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.source = transfer.make_content(self.folder / "source", 4 * MIB)

    def start(self, *arguments, **options):
        process = program.start(*arguments, **options)
        self.addCleanup(program.stop, process)
        return process

    def recv(self, *arguments, **options):
        process = self.start("recv", "--listen", "127.0.0.1:0", *arguments, **options)
        return process, program.wait_for_line(process, "twinrail: listening on ")

    def failed(self, done, saying, status=1):
        code, out, err = done
        self.assertEqual(code, status, out + err)
        self.assertIn(saying, program.one_line(self, err))
        return out

    # ---- strangers

    def test_a_server_that_is_none_of_ours_is_told_apart(self):
        for behave, saying in ((echo, "echo server"), (speak_http, "does not speak this protocol"),
                               (say_nothing, "by the deadline"), (reset, "by the deadline")):
            with self.subTest(saying):
                address = Stranger(self, behave).address
                done = program.run("send", address, self.source, "--json", "--connect-deadline", "1s", seconds=20)
                out = self.failed((done.returncode, done.stdout, done.stderr), saying)
                self.assertFalse(program.parse(self, out)["ok"])

    def test_strangers_at_the_receivers_port_do_not_keep_the_sender_out(self):
        receiver, address = self.recv("--output", self.folder / "target")
        host, port = address.rsplit(":", 1)
        strangers = []
        for i in range(300):
            stranger = socket.create_connection((host, int(port)))
            self.addCleanup(stranger.close)
            strangers.append(stranger)
            if i % 3:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" if i % 3 == 1 else b"TWINRAIL")  # cut HELLO
        done = program.run("send", address, self.source, seconds=20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(program.finish(receiver)[0], 0)
        self.assertEqual(digest(self.source), digest(self.folder / "target"))

    def test_a_second_sender_is_told_that_the_receiver_is_taken(self):
        receiver, address = self.recv("--output", self.folder / "target")
        first = self.start("send", address, stdin=subprocess.PIPE)
        first.stdin.write("content")
        first.stdin.flush()
        time.sleep(0.3)
        second = program.run("send", address, self.source, seconds=20)
        self.failed((second.returncode, second.stdout, second.stderr), "another sender")
        first.stdin.close()
        first.stdin = None
        self.assertEqual(program.finish(first)[0], 0)
        self.assertEqual(program.finish(receiver)[0], 0)
        self.assertEqual((self.folder / "target").read_text(), "content")

    # ---- streams

    def test_a_full_or_closed_standard_output_is_an_error(self):
        commands = (("--help",), ("knobs",), ("knobs", "--json"), ("demo", "--orders", 100),
                    ("demo", "--orders", 100, "--json"), ("simulate", "--schedules", 1))
        for command in commands:
            with self.subTest(command):
                words = " ".join(map(str, (program.BIN, *command)))
                for target, why in ((">/dev/full", "No space left"), (">&-", "Bad file descriptor")):
                    done = subprocess.run(["sh", "-c", f"{words} {target}"], stdin=subprocess.DEVNULL, text=True,
                                          capture_output=True, timeout=60, check=False, env=program.environment())
                    self.failed((done.returncode, done.stdout, done.stderr), why)

    def test_a_reader_that_has_seen_enough_is_no_news(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        process = self.start("knobs", stdout=write_end)
        os.close(write_end)
        self.assertEqual(program.finish(process), (1, "", ""))

    def test_closed_standard_streams_do_not_become_sockets(self):
        receiver, address = self.recv("--output", self.folder / "target")
        done = subprocess.run(["sh", "-c", f"{program.BIN} send {address} {self.source} <&- >&- 2>&-"], timeout=60,
                              check=False, env=program.environment())
        self.assertEqual(done.returncode, 0)
        self.assertEqual(program.finish(receiver)[0], 0)
        self.assertEqual(digest(self.source), digest(self.folder / "target"))

    def test_a_name_that_is_no_text_is_told_as_json_too(self):
        name = os.fsencode(self.folder / "n") + b"\xff\n"
        done = subprocess.run([program.BIN, "send", "127.0.0.1:1", name, "--json"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=20, check=False, env=program.environment())
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("No such file", json.loads(done.stdout)["error"])

    # ---- limits

    def test_a_file_that_grows_beyond_the_limit_is_told_on_both_sides(self):
        receiver, address = self.recv("--output", self.folder / "target",
                                      preexec_fn=limited(resource.RLIMIT_FSIZE, MIB))
        sent = program.run("send", address, self.source, seconds=20)
        self.failed((sent.returncode, sent.stdout, sent.stderr), "File too large")
        self.failed(program.finish(receiver), "File too large")

    def test_without_descriptors_for_a_fast_rail_tcp_carries_all(self):
        receiver, address = self.recv("--output", self.folder / "target",
                                      preexec_fn=limited(resource.RLIMIT_NOFILE, 10))
        sent = program.run("send", address, self.source, seconds=20)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertEqual(program.finish(receiver)[0], 0)
        self.assertEqual(digest(self.source), digest(self.folder / "target"))

    def test_who_knows_why_a_demo_failed_is_heard(self):
        done = program.run("demo", "--orders", 20_000, "--json", seconds=60,
                           preexec_fn=limited(resource.RLIMIT_NOFILE, 10))
        out = self.failed((done.returncode, done.stdout, done.stderr), "client: nothing moved")
        self.assertIn("client: nothing moved", program.parse(self, out)["error"])

    # ---- signals

    def test_an_interrupted_end_tells_the_other_at_once(self):
        for interrupted in ("send", "recv"):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(interrupted=interrupted, number=number):
                    receiver, address = self.recv("--output", self.folder / "target", "--json")
                    sender = self.start("send", address, "--json", stdin=subprocess.PIPE)
                    sender.stdin.write("some")
                    sender.stdin.flush()
                    time.sleep(0.3)
                    began = time.monotonic()
                    hit, other = (sender, receiver) if interrupted == "send" else (receiver, sender)
                    hit.send_signal(number)
                    hit.wait(20)  # finish() closes the pipe that is being sent
                    out = self.failed(program.finish(hit, 20), "interrupted", 128 + number)
                    self.assertIn("interrupted", program.parse(self, out)["error"])
                    status, out, err = program.finish(other, 20)
                    self.assertEqual(status, 1, err)
                    self.assertFalse(program.parse(self, out)["ok"])
                    self.assertLess(time.monotonic() - began, 3)
                    self.assertFalse((self.folder / "target").exists())

    def test_an_interrupted_bench_says_so_in_json_and_ends_its_peer(self):
        port = socket.create_server(("127.0.0.1", 0))
        number = port.getsockname()[1]
        port.close()
        server = self.start("bench", "--json", "-e", "-p", number)
        program.wait_for_line(server, "twinrail: waiting for a client on ")
        client = self.start("bench", "127.0.0.1", "--json", "-e", "-p", number, "-D", 60)
        time.sleep(0.5)
        client.send_signal(signal.SIGINT)
        out = self.failed(program.finish(client, 20), "interrupted", 130)
        self.assertEqual(program.parse(self, out)["error"], "interrupted")
        self.failed(program.finish(server, 20), "went away")

    def test_a_demo_that_is_interrupted_while_it_writes_orders_ends(self):
        process = self.start("demo", "--orders", 10**18, "--json", env=program.environment(TMPDIR=str(self.folder)))
        program.wait_until(lambda: list(self.folder.glob("twinrail-*/orders.csv")))
        process.send_signal(signal.SIGTERM)
        out = self.failed(program.finish(process, 20), "interrupted", 143)
        self.assertEqual(program.parse(self, out)["error"], "interrupted")
        self.assertEqual(list(self.folder.glob("twinrail-*")), [])


if __name__ == "__main__":
    program.skip_without_program()
    unittest.main()
