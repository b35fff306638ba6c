// Purpose: lets a tool end in order, with its temporary files removed, when it is asked to end (SIGINT,
//          SIGTERM, SIGHUP). A second signal of the kind ends it at once.
// Thread: any.
#pragma once

namespace twinrail::tools {

void watch_for_interrupts();
/// The signal that came, or 0.
int interrupted();

}  // namespace twinrail::tools
