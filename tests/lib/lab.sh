#!/usr/bin/env bash
# What tests/lab_test.py runs in the guest, as the text of `bash -c`: one boot for everything. What it finds goes into a
# file each of $TWINRAIL_LAB_RESULTS; the test on the host judges it.
set -u
cd "$TWINRAIL_LAB_RESULTS" || exit 1

port_states() { cat /sys/class/infiniband/rxe{0,1}/ports/1/state; }
sent() { cat /sys/class/infiniband/rxe{0,1}/ports/1/hw_counters/sent_pkts; }
pings() { busybox ping -q -I 10.9.0.1 "$@" 10.9.0.2; }

# until_listening PORT: or until it has taken too long.
until_listening() {
  local port tries
  printf -v port ':%04X .* 0A ' "$1"
  for ((tries = 0; tries < 200; ++tries)); do
    ! grep -q "$port" /proc/net/tcp /proc/net/tcp6 || return
    sleep 0.05
  done
}

# ping_pong: 200 messages from rxe0 to rxe1 and back by a reliable queue pair, set up over the other link.
ping_pong() {
  timeout 20 ibv_rc_pingpong -d rxe1 -g 1 -n 200 >/dev/null 2>&1 &
  until_listening 18515
  timeout 20 ibv_rc_pingpong -d rxe0 -g 1 -n 200 "$TWINRAIL_LAB_ETH1"
  local status=$?
  wait
  return "$status"
}

# tcp: a line through the other link.
tcp() {
  timeout 20 busybox nc -l -p 7000 </dev/null >"$1" &
  until_listening 7000
  echo 'over the other link' >"/dev/tcp/$TWINRAIL_LAB_ETH1/7000"
  wait
}

id -u >uid
env >environment
port_states >states
touch /etc/made-in-the-lab 2>/dev/null
echo $? >root-is-writable

sent >sent-before
{
  ping_pong
  echo "status $?"
} >pingpong 2>&1
sent >sent-after

links down 0
port_states >states-down
links return
links cut
port_states >states-cut-both
links return
links cut 1
port_states >states-cut
pings -c 1 -W 1 >ping-cut 2>&1
tcp tcp-cut
links return
port_states >states-returned
{
  ping_pong
  echo "status $?"
} >pingpong-returned 2>&1

links blackhole
port_states >states-blackhole
pings -c 1 -W 1 >ping-blackhole 2>&1
tcp tcp-blackhole
links show >show-blackhole
links heal
pings -c 1 -W 5 >ping-healed 2>&1

links delay 30
pings -c 3 -W 5 >ping-delay 2>&1
links loss 40
pings -c 50 -i 0.02 -W 1 >ping-loss 2>&1
links heal
links show >shown

# A user who may lock less than the program wants.
setpriv --reuid=nobody --regid=nogroup --clear-groups bash -c '
  ulimit -l 64
  ibv_rc_pingpong -d rxe0 -g 1 -s 1048576' >memlock 2>&1
links sever >links-usage 2>&1
echo $? >>links-usage

# What is left running, with the output open, is nothing to wait for.
sleep 1000 &
echo 'to stderr' >/dev/stderr
printf '%b' "$(printf '\\x%x' {0..255})"
head -c 2000000 /dev/zero
exit 7
