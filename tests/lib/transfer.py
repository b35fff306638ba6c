"""What the tests of `twinrail send` and `recv` share. Standard library only."""

import hashlib
import random

from lib import program

MIB = 1 << 20


def digest(path):
    state = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(MIB), b""):
            state.update(block)
    return state.hexdigest()


def make_content(path, size):
    """A file that is the same nowhere and not to be compressed, made from one random MiB."""
    block = bytearray(random.Random(7).randbytes(min(size, MIB)))
    with open(path, "wb") as file:
        for at in range(0, size, MIB):
            if size >= 8:
                block[:8] = at.to_bytes(8, "little")
            file.write(block[:min(MIB, size - at)])
    return path


def check_shares(test, rails, side, least):
    counts = {name: rail[f"bytes_{side}"] for name, rail in rails.items()}
    for count in counts.values():
        test.assertGreaterEqual(count / sum(counts.values()), least, counts)


def check_under_cuts(test, folder, size, seconds=100):
    """Moves a file while the fast rail is cut every 100 ms: it is the same at the other end, and both rails carried it."""
    source, target = make_content(folder / "source", size), folder / "target"
    receiver = program.start("recv", "--listen", "127.0.0.1:0", "--output", target, "--json")
    try:
        address = program.wait_for_line(receiver, "twinrail: listening on ")
        sent = program.run("send", address, source, "--cut-every", "100ms", "--json", seconds=seconds)
        status, out, err = program.finish(receiver)
    finally:
        if receiver.poll() is None:
            receiver.kill()
            receiver.communicate()
    test.assertEqual((sent.returncode, status), (0, 0), sent.stderr + err)
    test.assertEqual(digest(source), digest(target))
    test.assertIn("breaker eager", sent.stderr)
    report, other = program.parse(test, sent.stdout), program.parse(test, out)
    test.assertEqual(report["checksum"], other["checksum"])
    test.assertEqual((report["bytes"], other["bytes"]), (size, size))
    check_shares(test, report["rails"], "sent", 0.2)
    check_shares(test, other["rails"], "received", 0.2)
    cuts = report["cuts"]
    test.assertGreaterEqual(cuts["error"] + cuts["silent"], 2)
    test.assertLessEqual(abs(cuts["error"] - cuts["silent"]), 1)
    retreats = sum(switch["to"] == "tcp" for switch in report["switches"])
    test.assertGreaterEqual(retreats, cuts["error"] + cuts["silent"] - 1)
    test.assertEqual([path.name for path in folder.glob("target*")], ["target"])
    return report
