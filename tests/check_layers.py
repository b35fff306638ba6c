#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 60
"""Holds the sources to the table of the layers: who may include whom.

The table is TABLE below; CONTRIBUTING.md shows it to people. With no argument: checks that planted violations are
found, then checks the tree. With a folder: checks that tree only.
"""

import pathlib
import re
import sys
import tempfile

from lib import sources

# The order is the height: "X and below" means everything up to X.
ORDER = ["base", "observe", "wire", "health", "rollout", "ring", "verbs", "mem", "rail", "session", "sim", "engine",
         "rpc", "region", "bulk", "api", "diagnose", "agent"]


def upto(last, *without):
    # The simulator is a test bed: no layer of the product stands on it.
    return set(ORDER[:ORDER.index(last) + 1]) - {"sim"} - set(without)


TABLE = {
    "base": set(),
    "observe": {"base"},
    "wire": {"base"},
    "health": {"base"},
    "rollout": {"base"},
    "ring": {"base", "observe", "wire"},
    "verbs": {"base", "observe"},
    "mem": {"base", "observe"},
    "rail": {"base", "observe", "wire", "ring", "mem"},
    "session": {"base", "observe", "wire", "ring", "mem", "health", "rollout"},
    "sim": upto("session", "verbs"),
    "engine": upto("session"),
    "rpc": upto("engine"),
    "region": upto("engine"),
    "bulk": upto("engine"),
    "api": upto("bulk"),
    "diagnose": {"base", "observe", "wire", "health"},
    "agent": upto("diagnose"),
}
# A folder inside a layer, or a single header of another layer, that is allowed besides.
EXTRA_LAYERS = {"rail/verbs": {"verbs"}}
EXTRA_HEADERS = {"session": {"rail/rail.h"}}
# The public headers are api's face: api may implement them, the layers below must not know them.
MAY_INCLUDE_PUBLIC = {"api"}
# Result and Reason are one vocabulary for the library and its users (docs/adr/0001-public-vocabulary.md).
PUBLIC_VOCABULARY = {"base": {"twinrail/result.h", "twinrail/reason.h"}}

PURE = {"wire", "health", "rollout", "session", "sim"}
IMPURE_HEADER = re.compile(
    r"^(sys/(socket|epoll|eventfd|timerfd|mman|uio|un)\.h|netinet/.*|arpa/.*|netdb\.h|poll\.h|pthread\.h|unistd\.h|"
    r"chrono|ctime|time\.h|sys/time\.h|thread|mutex|condition_variable|future)$")
VERBS_HEADER = re.compile(r"^(infiniband|rdma)/")
TEST_HEADER = re.compile(r"^(gtest|gmock|benchmark)/")
TOOL_HEADER = re.compile(r"^(CLI|toml\+\+)/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def is_test(path):
    return bool(re.search(r"_(test|fuzz|bench)\.(cc|h)$", path.name)) or "testing" in path.parts


def layer_problem(root, path, rel, quote, name):
    """What is wrong with one #include of a file below src/, or None."""
    layer = rel.parts[1]
    test = is_test(rel)
    if layer not in TABLE:
        return f"src/{layer} is not in the table of the layers"
    if name.startswith("twinrail/"):
        if name in PUBLIC_VOCABULARY.get(layer, set()):
            return None
        return None if layer in MAY_INCLUDE_PUBLIC else f"{layer} must not include the public header {name}"
    if quote == "<":
        if VERBS_HEADER.match(name) and layer != "verbs" and rel.parts[1:3] != ("rail", "verbs"):
            return f"<{name}>: only src/verbs and src/rail/verbs see RDMA headers"
        if layer in PURE and IMPURE_HEADER.match(name) and not test:
            return f"<{name}>: {layer} is free of input, output, clocks and threads"
        if TEST_HEADER.match(name) and not test:
            return f"<{name}>: test code outside of a test"
        if TOOL_HEADER.match(name):
            return f"<{name}>: command lines and configuration files are read in tools only"
        return None
    target = name.split("/")[0]
    if not (root / "src" / name).is_file():
        return f'"{name}": no such file; includes are written from src/'
    allowed = TABLE[layer] | {layer} | EXTRA_LAYERS.get("/".join(rel.parts[1:3]), set())
    if test:
        allowed = allowed | {"sim"}
    if target in allowed:
        if layer == "sim" and name.startswith("rail/verbs/"):
            return f'"{name}": sim knows no verbs'
        return None
    if name in EXTRA_HEADERS.get(layer, set()):
        return None
    return f'"{name}": {layer} may not include {target}'


def outer_problem(root, path, rel, quote, name):
    """The same for a file outside of src/."""
    top = rel.parts[0]
    internal = quote == '"' and (root / "src" / name).is_file() and not (path.parent / name).is_file()
    if top == "include":
        public = quote == "<" and (not name.startswith("twinrail/") or (root / "include" / name).is_file())
        return None if public else f"{quote}{name}: a public header includes public and system headers only"
    if top == "tools":
        return None
    if top == "softverbs":
        ours = internal or name.startswith("twinrail/")
        return f"{name}: softverbs includes system headers only" if ours else None
    if internal and rel.parts[:2] != ("bench", "micro"):
        return f'"{name}": {top}/ uses <twinrail/...> only'
    return None


def check_tree(root):
    """Returns (problems, number of files looked at)."""
    problems = []
    files = sources.code_files(root)
    for path in files:
        rel = path.relative_to(root)
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            found = INCLUDE.match(line)
            if found:
                judge = layer_problem if rel.parts[0] == "src" else outer_problem
                problem = judge(root, path, rel, *found.groups())
                if problem:
                    problems.append(f"{rel.as_posix()}:{number}: {problem}")
            if GETENV.search(line) and rel.parts[0] in ("src", "include") and not is_test(rel):
                problems.append(f"{rel.as_posix()}:{number}: the environment is read in tools only")
    return problems, len(files)


# (file, its text, is it a violation?)
PLANTED = [
    ("src/base/units.h", "#include <chrono>", False),
    ("src/base/up.h", '#include "ring/ring.h"', True),
    ("src/base/env.cc", 'auto* x = std::getenv("X");', True),
    ("src/wire/frame.h", '#include "base/units.h"', False),
    ("src/wire/side.h", '#include "ring/ring.h"', True),
    ("src/wire/io.cc", "#include <sys/socket.h>", True),
    ("src/ring/ring.h", '#include "wire/frame.h"', False),
    ("src/ring/ring_test.cc", '#include <gtest/gtest.h>\n#include "sim/world.h"', False),
    ("src/ring/gtest.cc", "#include <gtest/gtest.h>", True),
    ("src/ring/near.cc", '#include "ring.h"', True),
    ("src/ring/near_test.cc", '#include "engine/loop.h"', True),
    ("src/verbs/qp.h", "#include <infiniband/verbs.h>", False),
    ("src/rail/rail.h", '#include "ring/ring.h"', False),
    ("src/rail/tcp/tcp.h", '  #  include "verbs/qp.h"', True),
    ("src/rail/tcp/raw.h", "#include <rdma/rdma_cma.h>", True),
    ("src/rail/verbs/rail.h", '#include "verbs/qp.h"', False),
    ("src/session/core.h", '#include "rail/rail.h"', False),
    ("src/session/deep.h", '#include "rail/tcp/tcp.h"', True),
    ("src/session/clock.cc", "#include <chrono>", True),
    ("src/sim/world.h", '#include "session/core.h"\n#include "rail/tcp/tcp.h"', False),
    ("src/sim/rdma.h", '#include "rail/verbs/rail.h"', True),
    ("src/engine/loop.h", '#include "session/core.h"\n#include "rail/tcp/tcp.h"\n#include <thread>', False),
    ("src/engine/sim.h", '#include "sim/world.h"', True),
    ("src/engine/public.h", "#include <twinrail/session.h>", True),
    ("src/rpc/region.h", '#include "region/region.h"', True),
    ("src/region/region.h", '#include "engine/loop.h"', False),
    ("src/api/session.cc", '#include <twinrail/session.h>\n#include "engine/loop.h"', False),
    ("src/api/cli.cc", "#include <CLI/CLI.hpp>", True),
    ("src/diagnose/doctor.h", '#include "session/core.h"', True),
    ("src/misc/odd.h", '#include "base/units.h"', True),
    ("include/twinrail/session.h", "#include <cstdint>", False),
    ("include/twinrail/leak.h", '#include "base/units.h"', True),
    ("include/twinrail/missing.h", "#include <twinrail/nothing.h>", True),
    ("softverbs/device.cc", "#include <infiniband/verbs.h>", False),
    ("softverbs/ours.cc", "#include <twinrail/session.h>", True),
    ("tools/twinrail/main.cc", '#include "engine/loop.h"', False),
    ("apps/queue/main.cc", "#include <twinrail/session.h>", False),
    ("apps/queue/deep.cc", '#include "engine/loop.h"', True),
    ("bench/micro/ring.cc", '#include "ring/ring.h"', False),
    ("bench/load.cc", '#include "ring/ring.h"', True),
    ("tests/cross_test.cc", '#include "engine/loop.h"', True),
]


def check_the_check():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text, _ in PLANTED:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n", encoding="utf-8")
        problems, _ = check_tree(root)
        found = {p.split(":")[0] for p in problems}
        wrong = [f"planted, not found: {n}" for n, _, bad in PLANTED if bad and n not in found]
        wrong += [f"found, though allowed: {p}" for p in problems
                  if not any(n == p.split(":")[0] and bad for n, _, bad in PLANTED)]
        return wrong


def main():
    if len(sys.argv) > 1:
        sources.finish("layers", *check_tree(pathlib.Path(sys.argv[1])))
    wrong = check_the_check()
    if wrong:
        sources.finish("planted violations", wrong, len(PLANTED))
    print(f"planted violations: all {sum(bad for _, _, bad in PLANTED)} found")
    sources.finish("layers", *check_tree(sources.ROOT))


if __name__ == "__main__":
    main()
