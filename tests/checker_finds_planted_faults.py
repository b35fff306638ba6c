#!/usr/bin/env python3
# ctest: TIMEOUT 120 COST 10
"""Plants a loss, a double, a swap and an altered payload, in either direction, and damages the logs themselves: the
checker finds each, and finds nothing in clean logs."""

import json
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("TWINRAIL_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CHECKER = os.path.join(ROOT, "tools", "checker", "check_logs.py")
CLIENT, SERVER = 1, 2
SENT, DELIVERED, END = 1, 2, 3
MASK = (1 << 64) - 1
MESSAGES = 200


def header(role, flow=7, magic=b"TRFLOW\r\n", version=1, reserved=0):
    return struct.pack("<8sIIQQ", magic, version, role, flow, reserved)


def body(records):
    """Records are (kind, sequence, digest)."""
    words = [word for kind, sequence, digest in records for word in (kind << 62 | sequence, digest)]
    words += [END << 62 | len(records), sum(words) & MASK]
    return struct.pack(f"<{len(words)}Q", *words)


def digest(sequence, answer):
    return (sequence * 0x9E3779B97F4A7C15 + answer * 0x1234567) & MASK


def clean_records(messages=MESSAGES):
    """The two processes' records; each works off its messages in small batches."""
    client, server = [], []
    for first in range(1, messages + 1, 3):
        batch = range(first, min(first + 3, messages + 1))
        client += [(SENT, n, digest(n, 0)) for n in batch]
        server += [(DELIVERED, n, digest(n, 0)) for n in batch]
        server += [(SENT, n, digest(n, 1)) for n in batch]
        client += [(DELIVERED, n, digest(n, 1)) for n in batch]
    return client, server


def delivered_at(records, sequence):
    return next(i for i, record in enumerate(records) if record[:2] == (DELIVERED, sequence))


class Checker(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.client, self.server = clean_records()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def run_on(self, clients, servers, *options):
        """Exit status, JSON object, line for people."""
        done = subprocess.run([sys.executable, CHECKER, "--client", *clients, "--server", *servers, *options],
                              capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.returncode, json.loads(done.stdout), done.stderr

    def run_records(self, *options):
        return self.run_on([self.write("client", header(CLIENT) + body(self.client))],
                           [self.write("server", header(SERVER) + body(self.server))], *options)

    def receiver(self, direction):
        return self.server if direction == "orders" else self.client

    def expect(self, direction, **faults):
        status, result, line = self.run_records("--one-way")
        self.assertEqual(status, 1, result)
        self.assertFalse(result["clean"])
        self.assertIn("FAULTS", line)
        for kind in ("lost", "doubled", "out_of_order", "altered", "invented", "sent_twice"):
            self.assertEqual(result[kind], faults.get(kind, 0), (kind, result))
            self.assertEqual(result["directions"][direction][kind], faults.get(kind, 0), (kind, result))
        self.assertTrue(result["examples"])

    def test_clean_logs_are_clean(self):
        status, result, line = self.run_records()
        self.assertEqual(status, 0, result)
        self.assertTrue(result["clean"])
        self.assertEqual((result["orders"], result["answers"]), (MESSAGES, MESSAGES))
        self.assertEqual(line, f"checker: {MESSAGES} orders, {MESSAGES} answers, 0 lost, 0 doubled, 0 out of order, "
                               "0 altered: clean\n")

    def test_logs_without_messages_are_clean(self):
        self.client, self.server = [], []
        self.assertEqual(self.run_records()[0], 0)

    def test_a_loss_is_found(self):
        for direction in ("orders", "answers"):
            for sequence in (1, 77, MESSAGES):
                with self.subTest(direction=direction, sequence=sequence):
                    self.client, self.server = clean_records()
                    records = self.receiver(direction)
                    del records[delivered_at(records, sequence)]
                    self.expect(direction, lost=1)

    def test_a_double_is_found_next_to_the_first_and_far_behind_it(self):
        for direction in ("orders", "answers"):
            for sequence, distance in ((1, 1), (77, 1), (77, 50), (MESSAGES, 1)):
                with self.subTest(direction=direction, sequence=sequence, distance=distance):
                    self.client, self.server = clean_records()
                    records = self.receiver(direction)
                    at = delivered_at(records, sequence)
                    records.insert(at + distance, records[at])
                    self.expect(direction, doubled=1)

    def test_a_swap_is_found(self):
        for direction in ("orders", "answers"):
            for sequence in (1, 77, MESSAGES - 1):
                with self.subTest(direction=direction, sequence=sequence):
                    self.client, self.server = clean_records()
                    records = self.receiver(direction)
                    one, other = delivered_at(records, sequence), delivered_at(records, sequence + 1)
                    records[one], records[other] = records[other], records[one]
                    self.expect(direction, out_of_order=1)

    def test_an_altered_payload_is_found(self):
        for direction in ("orders", "answers"):
            for sequence in (1, 77, MESSAGES):
                with self.subTest(direction=direction, sequence=sequence):
                    self.client, self.server = clean_records()
                    records = self.receiver(direction)
                    at = delivered_at(records, sequence)
                    records[at] = (DELIVERED, sequence, records[at][2] ^ 1)
                    self.expect(direction, altered=1)

    def test_a_message_that_nobody_sent_is_found(self):
        for direction in ("orders", "answers"):
            self.client, self.server = clean_records()
            self.receiver(direction).append((DELIVERED, MESSAGES + 1, 5))
            self.expect(direction, invented=1)

    def test_a_sequence_sent_twice_is_found(self):
        self.client.append((SENT, 5, digest(5, 0)))
        self.server.append((DELIVERED, 5, digest(5, 0)))
        self.expect("orders", sent_twice=1, doubled=1)

    def test_several_faults_are_counted_together(self):
        del self.server[delivered_at(self.server, 10)]
        del self.server[delivered_at(self.server, 20)]
        at = delivered_at(self.server, 30)
        self.server.insert(at, self.server[at])
        at = delivered_at(self.server, 40)
        self.server[at] = (DELIVERED, 40, 0)
        self.expect("orders", lost=2, doubled=1, altered=1)

    def test_an_order_without_an_answer_is_found(self):
        self.server = [record for record in self.server if record[:2] != (SENT, 9)]
        del self.client[delivered_at(self.client, 9)]
        status, result, _ = self.run_records()
        self.assertEqual((status, result["unanswered"], result["lost"]), (1, 1, 0))
        self.assertEqual(self.run_records("--one-way")[0], 0)

    def test_several_flows_are_matched_by_their_id(self):
        logs = {name: self.write(name, header(role, flow) + body(records))
                for name, role, flow, records in (("c1", CLIENT, 1, self.client), ("s1", SERVER, 1, self.server),
                                                  ("c2", CLIENT, 2, self.client[1:]), ("s2", SERVER, 2, self.server))}
        status, result, _ = self.run_on([logs["c1"], logs["c2"]], [logs["s2"], logs["s1"]])
        self.assertEqual((status, result["flows"], result["invented"]), (1, 2, 1))
        self.expect_malformed([logs["c1"]], [logs["s2"]], "no server log of its flow 0x1")
        self.expect_malformed([logs["c1"], logs["c1"]], [logs["s1"]], "same flow")

    def expect_malformed(self, clients, servers, what):
        status, result, line = self.run_on(clients, servers)
        self.assertEqual(status, 2, result)
        self.assertIn(what, result["error"])
        self.assertIn(what, line)
        self.assertFalse(result["clean"])

    def expect_bad_client(self, data, what):
        self.expect_malformed([self.write("bad", data)],
                              [self.write("server", header(SERVER) + body(self.server))], what)

    def test_a_truncated_log_is_refused_wherever_it_is_cut(self):
        whole = header(CLIENT) + body(self.client)
        for kept, what in ((0, "less than the header"), (31, "less than the header"), (32, "no end record"),
                           (40, "cut inside a record"), (32 + 16 * 9, "no end record"),
                           (len(whole) - 16, "no end record"), (len(whole) - 1, "cut inside a record")):
            with self.subTest(kept=kept):
                self.expect_bad_client(whole[:kept], what)
        self.expect_bad_client(whole[:32] + whole[48:], "its end record says")

    def test_garbage_is_refused(self):
        good = body(self.client)
        self.expect_bad_client(random.Random(1).randbytes(4096), "wrong magic")
        self.expect_bad_client(b"sequence,time_ns,type\n" * 50, "wrong magic")
        self.expect_bad_client(header(CLIENT, version=2) + good, "version 2")
        self.expect_bad_client(header(SERVER) + good, "log of a server, not of a client")
        self.expect_bad_client(header(9) + good, "unknown role")
        self.expect_bad_client(header(CLIENT, reserved=1) + good, "reserved")
        self.expect_bad_client(header(CLIENT) + body([(SENT, 0, 5)]), "sequence 0")
        self.expect_bad_client(header(CLIENT) + body([(SENT, 1, 5), (0, 2, 5)]), "record 2 is of no known kind")
        self.expect_bad_client(header(CLIENT) + body([(END, 1, 5), (SENT, 2, 5)]), "record 1 is of no known kind")
        self.expect_bad_client(header(CLIENT) + random.Random(2).randbytes(4096), "")

    def test_a_flipped_bit_of_a_log_never_passes_as_clean(self):
        whole = header(CLIENT) + body(self.client)
        for at in range(0, len(whole), 97):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << (at % 8)
            self.expect_bad_client(bytes(damaged), "")

    def test_files_that_cannot_be_read_are_refused(self):
        good = self.write("server", header(SERVER) + body(self.server))
        self.expect_malformed([self.path("missing")], [good], "No such file")
        self.expect_malformed([self.folder.name], [good], "directory")

    def test_a_million_records_take_about_a_second(self):
        self.client, self.server = clean_records(1_000_000)
        client = self.write("client", header(CLIENT) + body(self.client))
        server = self.write("server", header(SERVER) + body(self.server))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status, result, _ = self.run_on([client], [server])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # CPU seconds, since other tests run beside this one.
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertEqual((status, result["orders"]), (0, 1_000_000))
        print(f"{4 / seconds:.1f} million records a CPU second")
        # Three million a second on a quiet machine, and a million is asked for; a busy sibling may halve that.
        self.assertLess(seconds, 8)


if __name__ == "__main__":
    unittest.main()
