#!/usr/bin/env python3
# ctest: TIMEOUT 300 PROCESSORS 2 COST 15
"""`twinrail send` and `twinrail recv` move content whole or say why not, also while the fast rail is being cut."""

import hashlib
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

from lib import program, transfer
from lib.transfer import MIB, digest

class Transfer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def content(self, size, name="content"):
        return transfer.make_content(self.folder / name, size)

    def send(self, *arguments, **options):
        process = program.start("send", *arguments, **options)
        self.addCleanup(program.stop, process)
        return process

    def recv(self, *arguments, **options):
        process = program.start("recv", "--listen", "127.0.0.1:0", *arguments, **options)
        self.addCleanup(program.stop, process)
        return process, program.wait_for_line(process, "twinrail: listening on ")

    def test_a_large_file_arrives_whole_while_the_fast_rail_is_cut(self):
        transfer.check_under_cuts(self, self.folder, 256 * MIB)

    def test_a_pipe_goes_through_at_its_own_pace(self):
        receiver, address = self.recv()
        sender = self.send(address, stdin=subprocess.PIPE)
        for part in ("slow ", "but ", "whole\n"):
            sender.stdin.write(part)
            sender.stdin.flush()
            time.sleep(0.2)
        sender.stdin.close()
        sender.stdin = None
        status, _, err = program.finish(sender)
        self.assertEqual(status, 0, err)
        self.assertIn("sent over", err)
        status, out, err = program.finish(receiver)
        self.assertEqual((status, out), (0, "slow but whole\n"))
        self.assertIn("received over", err)

    def test_sizes_around_the_pieces(self):
        for size in (0, 1, 7, 31, 32, 33, 65527, 65528, 65529, 3 * MIB + 1):
            source, target = self.content(size), self.folder / f"of-{size}"
            receiver, address = self.recv("--output", target)
            sent = program.run("send", address, source)
            status, _, err = program.finish(receiver)
            self.assertEqual((sent.returncode, status), (0, 0), sent.stderr + err)
            self.assertEqual(source.read_bytes(), target.read_bytes())

    def test_tcp_alone(self):
        source, target = self.content(8 * MIB), self.folder / "target"
        receiver, address = self.recv("--output", target, "--json")
        sent = program.run("send", address, source, "--rail", "tcp", "--json")
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertEqual(program.parse(self, sent.stdout)["rails"]["shm"]["bytes_sent"], 0)
        self.assertEqual(program.finish(receiver)[0], 0)
        self.assertEqual(digest(source), digest(target))

    def test_a_slow_reader_holds_the_sender_up_and_loses_nothing(self):
        source = self.content(16 * MIB)
        receiver, address = self.recv(stdout=subprocess.PIPE)
        sender = self.send(address, source)
        time.sleep(1)
        self.assertIsNone(sender.poll(), "the sender cannot be done while nobody has read")
        state = hashlib.sha256()
        raw = receiver.stdout.buffer
        for block in iter(lambda: raw.read(65536), b""):
            state.update(block)
        self.assertEqual(state.hexdigest(), digest(source))
        self.assertEqual(program.finish(sender)[0], 0)
        self.assertEqual(receiver.wait(20), 0)

    def test_a_full_disk_is_told_on_both_sides(self):
        source = self.content(8 * MIB)
        receiver, address = self.recv("--output", "/dev/full")
        began = time.monotonic()
        sent = program.run("send", address, source, seconds=30)
        status, _, err = program.finish(receiver, 30)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual((sent.returncode, status), (1, 1), sent.stderr + err)
        for text in (sent.stderr, err):
            self.assertIn("No space left on device", program.one_line(self, text))

    def test_a_receiver_that_is_killed_ends_the_sender(self):
        source = self.content(64 * MIB)
        receiver, address = self.recv(stdout=subprocess.PIPE)  # nobody reads: it stops in the middle
        sender = self.send(address, source, "--session-deadline", "1s")
        time.sleep(0.5)
        receiver.kill()
        receiver.communicate()
        status, _, err = program.finish(sender, 20)
        self.assertEqual(status, 1)
        self.assertIn("session ended", program.one_line(self, err))

    def all_sent_and_the_sender_killed(self):
        """A receiver that has the end, and whose writer waits for a reader, after its session is over."""
        source = self.content(256 * 1024)
        receiver, address = self.recv("--session-deadline", "1s", stdout=subprocess.PIPE)
        sender = self.send(address, source, "--session-deadline", "1s")
        time.sleep(0.5)
        self.assertIsNone(sender.poll(), "the sender cannot be done while nobody has read")
        sender.kill()
        sender.communicate()
        time.sleep(3)
        self.assertIsNone(receiver.poll(), "all has come: only the writer can say how it ends")
        return source, receiver

    def test_a_sender_that_dies_after_the_end_takes_nothing_along(self):
        source, receiver = self.all_sent_and_the_sender_killed()
        data = receiver.stdout.buffer.read()
        self.assertEqual(receiver.wait(20), 0)
        self.assertEqual(hashlib.sha256(data).hexdigest(), digest(source))
        self.assertIn("the sender went away before it heard so", receiver.stderr.read())
        receiver.stdout.close()

    def test_a_receiver_that_waits_for_its_writer_can_be_interrupted(self):
        _, receiver = self.all_sent_and_the_sender_killed()
        receiver.terminate()
        self.assertEqual(receiver.wait(20), 128 + 15)
        self.assertIn("interrupted", program.one_line(self, receiver.stderr.read()))

    def test_a_sender_that_is_killed_leaves_no_half_a_file(self):
        target = self.folder / "target"
        receiver, address = self.recv("--output", target, "--session-deadline", "1s")
        sender = self.send(address, stdin=subprocess.PIPE)
        sender.stdin.write("half")
        sender.stdin.flush()
        time.sleep(0.3)
        sender.kill()
        sender.communicate()
        status, _, err = program.finish(receiver, 20)
        self.assertEqual(status, 1)
        self.assertIn("went away", program.one_line(self, err))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_file_that_was_there_stays_until_the_new_one_is_whole(self):
        source, target = self.content(MIB), self.folder / "target"
        target.write_text("old")
        receiver, address = self.recv("--output", target, "--session-deadline", "1s")
        self.assertEqual(target.read_text(), "old")
        self.assertEqual(program.run("send", address, source).returncode, 0)
        self.assertEqual(program.finish(receiver)[0], 0)
        self.assertEqual(digest(source), digest(target))

    def test_a_stranger_does_not_end_the_receiver(self):
        source, target = self.content(MIB), self.folder / "target"
        receiver, address = self.recv("--output", target)
        host, port = address.rsplit(":", 1)
        stranger = program.run("bench", host, "-p", port, "-n", 10, seconds=30)
        self.assertEqual(stranger.returncode, 1)
        self.assertEqual(program.run("send", address, source).returncode, 0)
        self.assertEqual(program.finish(receiver)[0], 0)
        self.assertEqual(digest(source), digest(target))

    def test_without_a_receiver_the_sender_says_so_at_its_deadline(self):
        began = time.monotonic()
        done = program.run("send", "127.0.0.1:1", "--connect-deadline", "500ms", seconds=20)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no connection", program.one_line(self, done.stderr))
        self.assertLess(time.monotonic() - began, 5)

    def test_an_idle_pair_uses_next_to_no_cpu(self):
        receiver, address = self.recv()
        sender = self.send(address, stdin=subprocess.PIPE)
        time.sleep(0.5)
        ticks = os.sysconf("SC_CLK_TCK")
        used = lambda: sum(sum(map(int, pathlib.Path(f"/proc/{p.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
                           for p in (receiver, sender)) / ticks
        before = used()
        time.sleep(2)
        self.assertLess(used() - before, 0.2)
        sender.stdin.close()
        sender.stdin = None
        self.assertEqual(program.finish(sender)[0], 0)


if __name__ == "__main__":
    program.skip_without_program()
    unittest.main()
