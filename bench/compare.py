#!/usr/bin/env python3
"""Compares `twinrail bench` with bare baselines, in rounds that can be trusted on a shared virtual machine.

A round is: probe, baseline, ours, ours, baseline (the next one the other way round), probe; the two of a kind are
averaged, so that a drift of the machine meets both alike. It is dropped, and its reason counted, when
the two probes differ by more than 20 %, when the CPUs were not two separate cores (shared-memory cases), or when
others used more than 0.15 core meanwhile. Reported are medians with their spread, and the ratio ours / baseline of each
round. Environment: TWINRAIL_BIN (the tool), TWINRAIL_REFERENCE (default: twinrail_reference beside it).

Exit status: 0 every limit is kept, 1 one is not or a program failed, 2 usage, 3 too few valid rounds or CPUs to say.
"""

import argparse
import collections
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

FOREIGN_LIMIT = 0.15
PROBE_SPREAD = 1.2
RUN_TIMEOUT_S = 60
MOST_FAILURES = 3
TICKS = os.sysconf("SC_CLK_TCK")

Case = collections.namedtuple("Case", "rail test size metric at_most at_least separate_cores title")
CASES = {
    "tcp-latency": Case("tcp", "latency", 64, "p50_ns", 1.10, None, False, "tcp, 64 B round trip, p50"),
    "shm-latency": Case("shm", "latency", 64, "p50_ns", 1.5, None, True, "shm, 64 B round trip, p50"),
    "shm-rate": Case("shm", "rate", 256, "messages_per_second", None, 0.5, True, "shm, 256 B one way"),
    "tcp-rate": Case("tcp", "rate", 256, "messages_per_second", None, None, False, "tcp, 256 B one way"),
}


class RunFailed(Exception):
    """A program did not give a figure; the text is for the user."""


class Load:
    """How many cores others have used since this was made. Our children count as ours once they are waited for.

    Interrupts are left out: the kernel does not charge those of our own loopback traffic to us."""

    def __init__(self):
        self.start = time.monotonic()
        self.busy = self._busy()
        self.ours = self._ours()

    @staticmethod
    def _busy():
        with open("/proc/stat", encoding="ascii") as stat:
            user, nice, system, _idle, _iowait, _irq, _softirq, steal = map(int, stat.readline().split()[1:9])
        return (user + nice + system + steal) / TICKS

    @staticmethod
    def _ours():
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage,
                                                        (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

    def foreign_cores(self):
        elapsed = max(time.monotonic() - self.start, 1e-3)
        return max(0.0, (self._busy() - self.busy - (self._ours() - self.ours)) / elapsed)


def pinned(cpu):
    return (lambda: os.sched_setaffinity(0, {cpu})) if cpu >= 0 else None


def last_json(name, status, out, err):
    """The JSON object that standard output is; lines before it are tolerated."""
    try:
        found = json.loads(out[out.index("{"):])
    except ValueError:
        found = None
    if status != 0 or not isinstance(found, dict):
        tail = (err.strip() or out.strip() or "no output").splitlines()[-1]
        raise RunFailed(f"{name} ended with status {status}: {tail}")
    return found


def number(found, *path):
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not found > 0:
        raise RunFailed(f"no figure {'.'.join(path)} in the JSON")
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stop(process, grace_s):
    """Waits for a server to end by itself, then ends it; only ever the process that we started."""
    for action, wait_s in ((lambda: None, grace_s), (process.terminate, 5), (process.kill, 5)):
        action()
        try:
            return process.communicate(timeout=wait_s)
        except subprocess.TimeoutExpired:
            continue
    return "", ""


class Runner:
    def __init__(self, options):
        self.options = options

    def reference(self, *arguments):
        cpus = ",".join(map(str, self.options.cpus))
        command = [str(self.options.reference), *arguments, "--cpus", cpus]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{' '.join(arguments)} of the reference took over {RUN_TIMEOUT_S} s") from None
        return last_json("twinrail_reference " + arguments[0], done.returncode, done.stdout, done.stderr)

    def probe(self):
        found = self.reference("probe", "-n", "50000")
        return {"placement": found.get("placement"), "spin_p50_ns": number(found, "spin", "p50_ns"),
                "pause_p50_ns": number(found, "pause", "p50_ns"),
                "stalls_over_1ms": found["spin"]["stalls_over_1ms"] + found["pause"]["stalls_over_1ms"]}

    def baseline(self, case, ours):
        o = self.options
        seconds = ["-D", str(o.seconds)]
        size = ["-s", str(case.size)]
        if case.test == "latency":
            kind = ["ping-pong", "--wait", o.wait] if case.rail == "shm" else ["tcp-latency", *size]
            found = self.reference(*kind, *seconds)["round_trip"]
            return {"value": number(found, "p50_ns"), "p99_ns": found["p99_ns"],
                    "cpu_ns_per_message": found["cpu_ns_per_round_trip"]}
        # Publish as often as ours does: as the tool says, else as it was asked to.
        every = str(max(1, round((ours or {}).get("messages_per_publication") or o.post_list)))
        kind = ["ring", "--wait", o.wait, "-e", every] if case.rail == "shm" else ["tcp-rate", "-l", every]
        found = self.reference(*kind, *size, *seconds)
        return {"value": number(found, "messages_per_second"), "publish_every": int(every),
                "cpu_ns_per_message": found["producer_cpu_ns_per_message"]}

    def ours(self, case):
        o = self.options
        common = ["--rail", case.rail, "--test", case.test, "--json", "-s", str(case.size), "-p", str(free_port())]
        if case.test == "rate":
            common += [o.post_list_flag, str(o.post_list)] if o.post_list_flag else []
        client_command = [str(o.tool), "bench", "127.0.0.1", *common, "-D", str(o.seconds)]
        server = subprocess.Popen([str(o.tool), "bench", *common], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, preexec_fn=pinned(o.cpus[1]))
        grace_s = 0.2  # a server without a client does not end by itself
        try:
            done = subprocess.run(client_command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S + o.seconds,
                                  check=False, preexec_fn=pinned(o.cpus[0]))
            grace_s = 2 if done.returncode == 0 else 0.2
        except subprocess.TimeoutExpired:
            raise RunFailed("twinrail bench: the client hangs") from None
        finally:
            _out, server_err = stop(server, grace_s)
        found = last_json("twinrail bench", done.returncode, done.stdout, done.stderr or server_err)
        result = {k: found[k] for k in ("p50_ns", "p99_ns", "p999_ns", "messages_per_second", "bytes_per_second",
                                        "cpu_ns_per_message", "messages_per_publication") if found.get(k) is not None}
        return {"value": number(found, case.metric), **result}


def mean(runs):
    """One set of figures of several; what not all of them have is left out."""
    return {k: statistics.fmean(r[k] for r in runs) for k in runs[0] if all(k in r for r in runs)}


def unusable(case, probe):
    if case.separate_cores and probe["placement"] != "separate-cores":
        return "placement " + str(probe["placement"])
    return None


def one_round(case, runner, baseline_first, last_ours):
    """A dict with `ratio`, or with `dropped`: why it does not count."""
    settle = Load()
    time.sleep(0.2)
    if settle.foreign_cores() > runner.options.foreign_limit:
        return {"dropped": "foreign load"}
    before = runner.probe()
    if (why := unusable(case, before)) is not None:
        return {"dropped": why, "probes": [before]}
    load = Load()
    runs = {"baseline": [], "ours": []}
    for who in ("baseline", "ours", "ours", "baseline") if baseline_first else ("ours", "baseline", "baseline", "ours"):
        last_ours = runs["ours"][-1] if runs["ours"] else last_ours
        runs[who].append(runner.baseline(case, last_ours) if who == "baseline" else runner.ours(case))
    baseline, ours = (mean(runs[who]) for who in ("baseline", "ours"))
    foreign = load.foreign_cores()
    after = runner.probe()
    out = {"probes": [before, after], "foreign_cores": round(foreign, 3), "baseline": baseline, "ours": ours}
    spins = [p["spin_p50_ns"] for p in (before, after)]
    if max(spins) > PROBE_SPREAD * min(spins) or before["placement"] != after["placement"]:
        out["dropped"] = "probes differ"
    elif (why := unusable(case, after)) is not None:
        out["dropped"] = why
    elif foreign > runner.options.foreign_limit:
        out["dropped"] = "foreign load"
    else:
        out["ratio"] = ours["value"] / baseline["value"]
    return out


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)} if values else None


def verdict(case, ratios, least_valid):
    if len(ratios) < least_valid:
        return "too few valid rounds"
    ratio = statistics.median(ratios)
    if case.at_most is not None and ratio > case.at_most:
        return "over the limit"
    if case.at_least is not None and ratio < case.at_least:
        return "below the limit"
    return "no limit" if case.at_most is None and case.at_least is None else "ok"


def measure(name, case, runner):
    """Tries until enough rounds are valid, or attempts or time are used up. Raises RunFailed when runs keep failing."""
    o = runner.options
    rounds = []
    failures = 0
    last_ours = None
    end = time.monotonic() + o.budget
    while len([r for r in rounds if "ratio" in r]) < o.rounds and len(rounds) < o.attempts:
        if rounds and time.monotonic() > end:
            break
        try:
            result = one_round(case, runner, len(rounds) % 2 == 0, last_ours)
            failures = 0
        except RunFailed as failed:
            failures += 1
            if failures == MOST_FAILURES:
                raise
            result = {"dropped": str(failed)}
        rounds.append(result)
        last_ours = result.get("ours", last_ours)
        # A machine may be no use for minutes: a reason is told once, until another comes.
        if "ratio" in result or result.get("dropped") != (rounds[-2].get("dropped") if len(rounds) > 1 else None):
            print(f"{name} {len(rounds)}: " + (f"ratio {result['ratio']:.3f}" if "ratio" in result else
                                               f"dropped, {result['dropped']}"), file=sys.stderr)
        if "dropped" in result:
            time.sleep(o.pause)  # what disturbed us may pass
    valid = [r for r in rounds if "ratio" in r]
    return {
        "case": name, "title": case.title, "metric": case.metric, "wait": o.wait if case.rail == "shm" else None,
        "limit_at_most": case.at_most, "limit_at_least": case.at_least,
        "baseline": spread([r["baseline"]["value"] for r in valid]), "ours": spread([r["ours"]["value"] for r in valid]),
        "ratio": spread([r["ratio"] for r in valid]), "valid_rounds": len(valid), "total_rounds": len(rounds),
        "dropped": dict(collections.Counter(r["dropped"] for r in rounds if "dropped" in r)),
        "verdict": verdict(case, [r["ratio"] for r in valid], o.least_valid), "rounds": rounds,
    }


def show(value, metric):
    if metric == "p50_ns":
        return f"{value / 1000:.3f} µs"
    return f"{value / 1e6:.3f} M/s"


def table(results):
    rows = [("what", "baseline (min-max)", "ours (min-max)", "ratio (min-max)", "limit", "valid", "verdict")]
    for r in results:
        cells = ["-", "-", "-"]
        if r["ratio"] is not None:
            cells = [f"{show(r[k]['median'], r['metric'])} ({show(r[k]['min'], r['metric'])} - "
                     f"{show(r[k]['max'], r['metric'])})" for k in ("baseline", "ours")]
            cells.append(f"{r['ratio']['median']:.3f} ({r['ratio']['min']:.3f} - {r['ratio']['max']:.3f})")
        limit = "-"
        if r["limit_at_most"] is not None:
            limit = f"<= {r['limit_at_most']}"
        elif r["limit_at_least"] is not None:
            limit = f">= {r['limit_at_least']}"
        rows.append((r["title"], *cells, limit, f"{r['valid_rounds']} of {r['total_rounds']}", r["verdict"]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    for r in results:
        for why, times in r["dropped"].items():
            lines.append(f"{r['title']}: {times} dropped, {why}")
    return "\n".join(lines)


def chosen_cpus(text, parser):
    """Client's and server's. In a container or under taskset, CPUs 0 and 1 need not be ours."""
    ours = sorted(os.sched_getaffinity(0))
    if text is None:
        if len(ours) < 2:
            print(f"compare: needs two CPUs, and may use only CPU {ours[0]}: nothing can be said", file=sys.stderr)
            sys.exit(3)
        return ours[:2]
    try:
        cpus = [int(c) for c in text.split(",")]
    except ValueError:
        cpus = []
    if len(cpus) != 2:
        parser.error("--cpus is two numbers A,B")
    for cpu in cpus:
        if cpu >= 0 and cpu not in ours:
            parser.error(f"--cpus {text}: we may not use CPU {cpu}, only {','.join(map(str, ours))}")
    return cpus


def parse(arguments):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default: those with a limit")
    p.add_argument("--rounds", type=int, default=6, help="valid rounds wanted (6)")
    p.add_argument("--attempts", type=int, default=200, help="rounds tried at most, each case (200)")
    p.add_argument("--budget", type=float, default=180, help="seconds after which no round is begun, each case (180)")
    p.add_argument("--least-valid", type=int, default=3, help="valid rounds needed for a verdict (3)")
    p.add_argument("-D", "--seconds", type=float, default=0.5, help="of each run (0.5)")
    p.add_argument("--pause", type=float, default=0.5, help="seconds to wait after a dropped round (0.5)")
    p.add_argument("--foreign-limit", type=float, default=FOREIGN_LIMIT, help="cores others may use (0.15)")
    p.add_argument("--wait", choices=("spin", "pause"), default="spin", help="wait loop of the shm baselines (spin)")
    p.add_argument("--post-list", type=int, default=32, help="rate: messages a flush, both (32)")
    p.add_argument("--post-list-flag", default="-l", help="how our tool is told; empty: it is not told (-l)")
    p.add_argument("--cpus", help="client and server, as A,B; -1: not pinned (the first two that we may use)")
    p.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    o = p.parse_args(arguments)
    if unknown := [c for c in o.cases if c not in CASES]:
        p.error(f"unknown case {unknown[0]}; there are {', '.join(CASES)}")
    o.cases = o.cases or [n for n, c in CASES.items() if c.at_most is not None or c.at_least is not None]
    o.cpus = chosen_cpus(o.cpus, p)
    if min(o.rounds, o.attempts, o.least_valid, o.post_list) < 1 or o.seconds <= 0 or o.pause < 0:
        p.error("--rounds, --attempts, --least-valid, --post-list and --seconds are above 0")
    o.tool = os.environ.get("TWINRAIL_BIN") or shutil.which("twinrail") or p.error("set TWINRAIL_BIN")
    o.reference = os.environ.get("TWINRAIL_REFERENCE") or pathlib.Path(o.tool).with_name("twinrail_reference")
    for program in (o.tool, o.reference):
        if not os.access(program, os.X_OK):
            p.error(f"{program} is not a program: build the targets twinrail and twinrail_reference")
    return o


def main(arguments):
    o = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    runner = Runner(o)
    results = []
    failure = None
    try:
        for name in o.cases:
            results.append(measure(name, CASES[name], runner))
    except RunFailed as failed:
        failure = str(failed)
    if o.json:
        print(json.dumps({"results": results, "error": failure}, indent=1))
    elif results:
        print(table(results))
    if failure is not None:
        print(f"compare: {failure}", file=sys.stderr)
        return 1
    if any(r["verdict"].endswith("the limit") for r in results):
        return 1
    return 3 if any(r["verdict"] == "too few valid rounds" for r in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
