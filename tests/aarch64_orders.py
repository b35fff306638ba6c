#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 30 FULL
"""What publishes and what reads a publication is compiled to ordered instructions for 64-bit ARM.

The tests of the aarch64 tree run on an emulator, and an x86 processor below it keeps an order that ARM does not promise:
they pass also when a release or an acquire has been forgotten. So the instructions themselves are looked at here.
"""

import platform
import re
import shutil
import subprocess
import sys

from lib import sources

# A store that what stands before it cannot pass, or a full barrier; and so on. LDAPR may pass an earlier STLR, which
# sequential consistency does not allow: it is no LDAR.
RELEASE = r"stlrb?|dmb\s+ish"
ACQUIRE = r"ldarb?|ldaprb?|dmb\s+ish(ld)?"
FULL = r"dmb\s+ish"
STRICT_LOAD = r"ldarb?|dmb\s+ish"

SHM = "src/rail/CMakeFiles/twinrail_rail.dir/shm/datapath.cc.o"
RING = "src/ring/CMakeFiles/twinrail_ring.dir/receive_ring.cc.o"
INBOX = "src/engine/CMakeFiles/twinrail_engine.dir/inbox.cc.o"

# In this order within the function.
WANTED = [
    (SHM, "twinrail::rail::ShmRail::publish(", [RELEASE]),
    (SHM, "twinrail::rail::ShmRail::wake_peer(", [FULL]),
    (SHM, "twinrail::rail::ShmRail::report(", [RELEASE]),
    (SHM, "twinrail::rail::ShmRail::send_control(", [ACQUIRE, RELEASE]),
    (SHM, "twinrail::rail::ShmRail::receive_control(", [ACQUIRE, RELEASE]),
    (SHM, "twinrail::rail::ShmRail::poll(", [ACQUIRE]),
    (SHM, "twinrail::rail::ShmRail::peer_report(", [ACQUIRE]),
    (SHM, "twinrail::rail::ShmRail::arm(", [FULL, ACQUIRE]),
    (SHM, "twinrail::rail::ShmRail::fence(", [ACQUIRE]),
    (RING, "twinrail::ring::ReceiveRing::collect_holds(", [ACQUIRE]),
    (INBOX, "twinrail::engine::Inbox::prepare_sleep(", [RELEASE, STRICT_LOAD]),
    (INBOX, "twinrail::engine::Inbox::wake(", [STRICT_LOAD]),
]
# Relaxed in the source: shows that the patterns tell one from the other.
UNORDERED = [(SHM, "twinrail::rail::ShmRail::stop(")]


def functions_of(objdump, path):
    """{demangled name: [instructions]} of an object file."""
    text = subprocess.run([objdump, "--disassemble", "--demangle", "--no-show-raw-insn", str(path)],
                          check=True, capture_output=True, text=True).stdout
    functions, body = {}, []
    for line in text.splitlines():
        head = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if head:
            body = functions.setdefault(head.group(1), [])
        elif re.match(r"\s*[0-9a-f]+:\t", line):
            body.append(line.split("\t", 1)[1].replace("\t", " "))
    return functions


def body_of(functions, start):
    """Its instructions, with those of the parts that the compiler has split off."""
    return [line for name, body in functions.items() if name.startswith(start) for line in body]


def holds(body, patterns):
    """The patterns occur in this order."""
    at = 0
    for pattern in patterns:
        found = next((i for i in range(at, len(body)) if re.match(rf"({pattern})(\s|$)", body[i])), None)
        if found is None:
            return False
        at = found + 1
    return True


def main():
    native = platform.machine() == "aarch64"
    tree = sources.ROOT / "build" / ("release" if native else "aarch64")
    objdump = shutil.which("objdump" if native else "aarch64-linux-gnu-objdump")
    if objdump is None or not (native or shutil.which("aarch64-linux-gnu-g++")):
        print("no compiler for 64-bit ARM, or no objdump for what it compiles")
        sys.exit(sources.SKIPPED)

    problems, compiled = [], {}
    for path in (SHM, RING, INBOX):
        if (tree / path).is_file():
            compiled[path] = functions_of(objdump, tree / path)
        else:
            problems.append(f"{tree / path} is not there")
    for path, start, patterns in WANTED:
        body = body_of(compiled.get(path, {}), start)
        if not holds(body, patterns):
            problems.append(f"{start}...) has no {' and then '.join(patterns)} in its {len(body)} instructions")
    for path, start in UNORDERED:
        body = body_of(compiled.get(path, {}), start)
        if not body or any(holds(body, [pattern]) for pattern in (RELEASE, ACQUIRE)):
            problems.append(f"{start}...) should have instructions, and none that orders")
    sources.finish("orders on 64-bit ARM", problems, len(WANTED))


if __name__ == "__main__":
    main()
