#include "transfer/settings.h"

#include "common/rails.h"

namespace twinrail::tools {

Result<Settings> transfer_settings(const std::string& rail, bool cutting, const Knobs& knobs) {
  if (auto problem = rail_problem(rail); !problem.empty())
    return Error{Code::invalid_argument, std::move(problem)};
  Settings settings;
  SessionOptions& session = settings.connect.session;
  choose_rail(session, rail);
  // Room for a dozen pieces, so that reading, moving and writing go on at once; next to nothing comes back.
  session.send_ring_bytes = 1024 * 1024;
  session.receive_ring_bytes = 16 * 1024;
  // Whatever fits the ring may wait for the disk.
  session.max_held = 64 * 1024;
  // Under load each end answers at once; idle, it sleeps.
  settings.engine.idle = Idle::back_off;
  if (cutting) session.breaker = BreakerOptions::eager();
  if (const Status applied = knobs.apply(settings); !applied) return applied.error();
  return settings;
}

}  // namespace twinrail::tools
