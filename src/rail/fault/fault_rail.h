// Purpose: a rail that fails on command: decorates any rail, at the factory; the product has no branch for
//          it.
// Thread: as rail.h says; commands come through FaultControl from any thread.
// Ownership: owns the decorated rail. When it is retired while it holds swallowed publications, the decorated
//            rail lives on, unstopped, in the FaultControl until they have landed. By then the session may be
//            gone: a landing only calls publish(), send_control() and report(), so the decorated rail's
//            sending half must not look at the rings' objects (shm looks at none, tcp at a copy that shares
//            the memory).
// Cost: one atomic load and one more indirect call while nothing is wrong.
// Failures: rail_error when cut so; else those of the decorated rail.
// Limits: a cut of the receive direction stops polling the decorated rail, so over tcp it also holds up sending
//         once the socket is full.
#pragma once

#include "rail/fault/fault_control.h"
#include "rail/rail.h"

namespace twinrail::rail {

std::unique_ptr<Rail> make_fault_rail(std::unique_ptr<Rail> inner, std::shared_ptr<FaultControl> control);

}  // namespace twinrail::rail
