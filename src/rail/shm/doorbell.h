// Purpose: how a same-host peer wakes this end: a byte through a pair of unix sockets, one end with the peer.
// Thread: ring_doorbell() and drain_doorbell() on the engine's thread, the rest anywhere.
// Ownership: the maker keeps both ends open. A peer that closes its copy, or dies, is then no hang-up here,
//            which the poller would report again and again: that it is gone is for TCP to find.
// Cost: one system call each; none while nobody sleeps.
// Failures: no call here blocks, whatever the peer does. An eventfd cannot promise that: O_NONBLOCK belongs
//           to the open file, which the peer shares and may change. Here every call carries MSG_DONTWAIT, and
//           each end of a pair is an open file of its own.
// Source: unix(7), send(2).
#pragma once

#include "base/result.h"
#include "rail/descriptor.h"

namespace twinrail::rail {

struct Doorbell {
  Descriptor listens;  ///< becomes readable
  Descriptor rings;    ///< for the peer
};

Result<Doorbell> make_doorbell();

/// What a peer sent as its doorbell is one: a unix stream socket.
[[nodiscard]] bool is_doorbell(const Descriptor& descriptor);

/// Cannot fail in a way that matters: a full socket is readable already.
void ring_doorbell(const Descriptor& rings);

/// After waking. Takes a bounded number of bytes: what a peer rings beyond that only wakes us again. False: the
/// peer shut the socket, so that it would wake us for ever.
[[nodiscard]] bool drain_doorbell(const Descriptor& listens);

}  // namespace twinrail::rail
