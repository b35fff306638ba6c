#!/usr/bin/env bash
# What tests/lab_verbs_test.py runs in the lab: lab_verbs.sh FOLDER-OF-PROGRAMS. What it finds goes into files of
# $TWINRAIL_LAB_RESULTS; the test on the host judges them.
set -u
programs=$1
twinrail=$programs/twinrail
cd "$TWINRAIL_LAB_RESULTS" || exit 1

status_of() { # FILE COMMAND...: runs it, its output to FILE.out and FILE.err, its status to FILE.status
  local file=$1
  shift
  "$@" >"$file.out" 2>"$file.err"
  echo $? >"$file.status"
}

# holes PROCESS PAUSE LENGTH MOST FILE: black-holes the RDMA link and returns it, over and over, while a process lives.
holes() {
  local process=$1 pause=$2 length=$3 most=$4 count=0
  while ((count < most)) && sleep "$pause" && kill -0 "$process" 2>/dev/null; do
    links blackhole
    sleep "$length"
    links heal
    count=$((count + 1))
    echo "$count" >"$5"
  done
}

# crossing PROCESS: waits until packets cross the RDMA link. False: the process has ended before.
crossing() {
  local count=/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts from
  from=$(<"$count")
  until (($(<"$count") > from + 2000)); do
    kill -0 "$1" 2>/dev/null || return
    sleep 0.1
  done
}

# --- the rail's contract and what only this rail can do wrong, over real queue pairs
status_of contract timeout 240 "$programs/rail_test" --gtest_filter='Verbs/*:VerbsDevice.*:VerbsOptions.*'

# --- a file, with the link black-holed and returned
export TWINRAIL_BREAKER_PRESET=eager
head -c 64M /dev/urandom >/tmp/sent
sha256sum </tmp/sent >sent.sha256
status_of recv timeout 120 "$twinrail" recv --listen "$TWINRAIL_LAB_ETH1:7000" --output /tmp/received --json &
receiver=$!
# At a pace at which the holes fall into it.
feed() { for ((i = 0; i < 64; ++i)); do dd if=/tmp/sent bs=1M skip="$i" count=1 status=none && sleep 0.08; done; }
feed | status_of send timeout 120 "$twinrail" send "$TWINRAIL_LAB_ETH1:7000" --rail verbs --json &
sender=$!
holes "$sender" 2 0.4 4 holes.transfer
wait "$sender" "$receiver"
sha256sum </tmp/received >received.sha256
rm -f /tmp/sent /tmp/received

# --- the demo: by itself it uses RDMA here; and while the link is black-holed
status_of demo_auto timeout 60 "$twinrail" demo --orders 20000 --json
status_of demo timeout 200 "$twinrail" demo --orders 100000 --rail verbs --json &
demo=$!
holes "$demo" 1 0.3 6 holes.demo
wait "$demo"

# --- and with each end's cable pulled in turn, so long that everything on the way is given up; orders enough that a dial which
# the second pull meets can time out and the next one still bring the rail back
status_of cables timeout 150 "$twinrail" demo --orders 200000 --rail verbs --cuts 0 --json &
demo=$!
for end in 0 1; do
  crossing "$demo" && links cut "$end" && sleep 1 && links return
done
wait "$demo"

# --- what is told when there is nothing to use
links cut >/dev/null
status_of port_down timeout 20 "$twinrail" send 127.0.0.1:7001 --rail verbs
links return
# shellcheck disable=SC2317 # called by status_of
nobody() { setpriv --reuid=nobody --regid=nogroup --clear-groups prlimit --memlock=65536 "$@"; }
head -c 1M /dev/zero >/tmp/zeros
status_of limited_recv timeout 30 "$twinrail" recv --listen 127.0.0.1:7002 --output /tmp/limited --json &
status_of limited nobody timeout 30 "$twinrail" send 127.0.0.1:7002 /tmp/zeros --json
wait
status_of forced_recv timeout 30 "$twinrail" recv --listen 127.0.0.1:7003 --output /tmp/forced --json &
status_of forced nobody timeout 30 "$twinrail" send 127.0.0.1:7003 /tmp/zeros --rail verbs
kill %% 2>/dev/null
wait
exit 0
