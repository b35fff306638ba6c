// Purpose: how a same-host peer wakes this end: a byte through a pair of unix sockets, one end with the peer.
// Thread: ring_doorbell() and drain_doorbell() on the engine's thread, the rest anywhere.
// Ownership: the maker keeps both ends open. A peer that closes its copy, or dies, is then no hang-up here,
//            which the poller would report again and again: that it is gone is for TCP to find.
// Cost: one system call each; none while nobody sleeps.
// Failures: no call here waits for the peer. An eventfd cannot promise that: O_NONBLOCK belongs to the open
//           file, which the peer shares and may change. Here every call carries MSG_DONTWAIT, and each end of
//           a pair is an open file of its own. What a peer can still do, and it runs as the same user: pass
//           files through the socket, which the kernel closes on our thread when we drain; that takes as long
//           as closing the last reference of such a file does.
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

/// False: the kernel had no memory for it, try again. Other failures do not matter: a full socket is readable
/// already, and nobody sleeps behind one that is gone.
[[nodiscard]] bool ring_doorbell(const Descriptor& rings);

/// After waking. Takes a bounded number of bytes: what a peer rings beyond that only wakes us again. False: the
/// peer shut the socket, so that it would wake us for ever.
[[nodiscard]] bool drain_doorbell(const Descriptor& listens);

}  // namespace twinrail::rail
