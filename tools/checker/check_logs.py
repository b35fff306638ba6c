#!/usr/bin/env python3
"""Compares the flow logs of the demo's processes: was every message delivered once, in order, unaltered?

It shares no code with the programs that it checks; the log format is described in docs/orderflow.md.
Prints one JSON object to standard output and one line for people to standard error.
Exit status: 0 clean, 1 faults found, 2 a log that cannot be read or is malformed.
"""

import argparse
import json
import struct
import sys
from array import array
from itertools import compress

MAGIC = b"TRFLOW\r\n"
VERSION = 1
HEADER = struct.Struct("<8sIIQQ")
RECORD_BYTES = 16
ROLES = {1: "client", 2: "server"}
SENT, DELIVERED, END = 1, 2, 3
# A record's kind is the upper two bits of its first word, so of this byte. Tables over whole slices of bytes keep the
# work in C: a million records a second and more, where a loop over the records would do a third of it.
KIND_BYTE, KIND_SHIFT = 7, 6
WITHOUT_KIND = bytes(byte & 0x3F for byte in range(256))
WORD_MASK = (1 << 64) - 1
FAULTS = ("lost", "doubled", "out_of_order", "altered", "invented", "sent_twice")
EXAMPLES_KEPT = 5


class BadLog(Exception):
    pass


class Log:
    """One process's log: what it sent and was delivered, each as the sequences and, beside them, the digests."""

    def __init__(self, path, role):
        self.path = path
        data = self._read()
        self.flow = self._check_header(data, role)
        if (len(data) - HEADER.size) % RECORD_BYTES != 0:
            raise self._bad("is cut inside a record")
        kinds = self._check_end(data)
        del data[-RECORD_BYTES:]
        # With the kind cleared, the first word is the sequence.
        data[HEADER.size + KIND_BYTE :: RECORD_BYTES] = kinds.translate(WITHOUT_KIND)
        words = self._words(data)
        sequences, digests = words[0::2], words[1::2]
        if 0 in sequences:
            raise self._bad(f"record {sequences.index(0) + 1} has the sequence 0")
        self.sent, self.delivered = ([array("Q", compress(column, is_kind)) for column in (sequences, digests)]
                                     for is_kind in map(kinds.translate, (table_of(SENT), table_of(DELIVERED))))
        if len(self.sent[0]) + len(self.delivered[0]) != len(sequences):
            strange = next(i for i, byte in enumerate(kinds) if byte >> KIND_SHIFT not in (SENT, DELIVERED))
            raise self._bad(f"record {strange + 1} is of no known kind")

    def _bad(self, what):
        return BadLog(f"{self.path}: {what}")

    def _read(self):
        try:
            with open(self.path, "rb") as file:
                return bytearray(file.read())
        except OSError as error:
            raise self._bad(error.strerror or str(error)) from error

    def _check_header(self, data, role):
        if len(data) < HEADER.size:
            raise self._bad(f"has {len(data)} bytes, less than the header's {HEADER.size}")
        magic, version, log_role, flow, reserved = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise self._bad("is no flow log (wrong magic)")
        if version != VERSION:
            raise self._bad(f"has version {version}, this checker reads version {VERSION}")
        if ROLES.get(log_role) != role:
            raise self._bad(f"is the log of a {ROLES.get(log_role, 'unknown role')}, not of a {role}")
        if reserved != 0:
            raise self._bad("has reserved header bytes that are not zero")
        return flow

    @staticmethod
    def _words(data):
        words = array("Q")
        words.frombytes(memoryview(data)[HEADER.size :])
        if sys.byteorder == "big":
            words.byteswap()
        return words

    def _check_end(self, data):
        """Checks the end record against the others; returns the bytes that hold their kinds."""
        kinds = bytes(data[HEADER.size + KIND_BYTE :: RECORD_BYTES])
        if not kinds or kinds[-1] >> KIND_SHIFT != END:
            raise self._bad("has no end record: its process died or the log was cut")
        words = self._words(data)
        total, count = words.pop(), words.pop() - (END << 62)
        if count * 2 != len(words):
            raise self._bad(f"has {len(words) // 2} records, its end record says {count}")
        if sum(words) & WORD_MASK != total:
            raise self._bad("does not have the check sum that its end record says")
        return kinds[:-1]


def table_of(kind):
    return bytes(byte >> KIND_SHIFT == kind for byte in range(256))


def compare(name, sent, delivered, examples):
    """Counts the faults of one direction."""
    sequences, digests = sent
    counts = dict.fromkeys(FAULTS, 0)
    counts["sent"], counts["delivered"] = len(sequences), len(delivered[0])
    if sent == delivered and len(set(sequences)) == len(sequences):
        return counts

    def fault(kind, what):
        counts[kind] += 1
        if counts[kind] <= EXAMPLES_KEPT:
            examples.append(f"{name}: {what}")

    position, digest_of = {}, {}
    for index, (sequence, digest) in enumerate(zip(sequences, digests)):
        if sequence in position:
            fault("sent_twice", f"{sequence} was sent twice")
            continue
        position[sequence], digest_of[sequence] = index, digest
    seen, highest, highest_sequence = set(), -1, 0
    for sequence, digest in zip(*delivered):
        where = position.get(sequence)
        if where is None:
            fault("invented", f"{sequence} was delivered but never sent")
            continue
        if digest != digest_of[sequence]:
            fault("altered", f"{sequence} was delivered with another payload")
        if sequence in seen:
            fault("doubled", f"{sequence} was delivered again")
            continue
        seen.add(sequence)
        if where < highest:
            fault("out_of_order", f"{sequence} was delivered behind {highest_sequence}, which was sent later")
        else:
            highest, highest_sequence = where, sequence
    for sequence in position:
        if sequence not in seen:
            fault("lost", f"{sequence} was sent but not delivered")
    return counts


def pair_up(client_paths, server_paths):
    """Reads the logs and matches them by their flow id."""
    logs = {"client": {}, "server": {}}
    for role, paths in (("client", client_paths), ("server", server_paths)):
        for path in paths:
            log = Log(path, role)
            other = logs[role].setdefault(log.flow, log)
            if other is not log:
                raise BadLog(f"{path}: is of the same flow as {other.path}")
    for role, peer in (("client", "server"), ("server", "client")):
        for flow, log in logs[role].items():
            if flow not in logs[peer]:
                raise BadLog(f"{log.path}: no {peer} log of its flow {flow:#x} was given")
    return [(log, logs["server"][flow]) for flow, log in logs["client"].items()]


def check(pairs, one_way):
    examples = []
    directions = {name: dict.fromkeys((*FAULTS, "sent", "delivered"), 0) for name in ("orders", "answers")}
    unanswered = 0
    for client, server in pairs:
        for name, sent, delivered in (("orders", client.sent, server.delivered),
                                      ("answers", server.sent, client.delivered)):
            for key, value in compare(name, sent, delivered, examples).items():
                directions[name][key] += value
        if not one_way and client.sent[0] != client.delivered[0]:
            missing = sorted(set(client.sent[0]).difference(client.delivered[0]))
            unanswered += len(missing)
            examples += [f"answers: the client has none to order {sequence}" for sequence in missing[:EXAMPLES_KEPT]]
    result = {"clean": False, "flows": len(pairs), "orders": directions["orders"]["sent"],
              "answers": directions["answers"]["delivered"]}
    for kind in FAULTS:
        result[kind] = sum(direction[kind] for direction in directions.values())
    result["unanswered"] = unanswered
    result["clean"] = not any(result[kind] for kind in (*FAULTS, "unanswered"))
    result["directions"] = directions
    result["examples"] = examples
    return result


def sentence(result):
    text = (f"checker: {result['orders']} orders, {result['answers']} answers, {result['lost']} lost, "
            f"{result['doubled']} doubled, {result['out_of_order']} out of order, {result['altered']} altered")
    text += "".join(f", {result[kind]} {kind.replace('_', ' ')}" for kind in ("invented", "sent_twice", "unanswered")
                    if result[kind])
    text += ": clean" if result["clean"] else ": FAULTS"
    return text + (f" (first: {result['examples'][0]})" if result["examples"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--client", nargs="+", required=True, metavar="LOG", help="log of a client, one for each flow")
    parser.add_argument("--server", nargs="+", required=True, metavar="LOG", help="log of a server, one for each flow")
    parser.add_argument("--one-way", action="store_true", help="orders need no answers")
    arguments = parser.parse_args()
    try:
        result = check(pair_up(arguments.client, arguments.server), arguments.one_way)
    except BadLog as error:
        print(json.dumps({"clean": False, "error": str(error)}))
        print(f"checker: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result))
    print(sentence(result), file=sys.stderr)
    return 0 if result["clean"] else 1


if __name__ == "__main__":
    sys.exit(main())
