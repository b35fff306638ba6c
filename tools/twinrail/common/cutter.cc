#include "common/cutter.h"

#include "api/internal.h"
#include "rail/fault/fault_rail.h"

namespace twinrail::tools {

Cutter::Cutter(Context& context) : control_(std::make_shared<rail::FaultControl>()) {
  detail::Access::hooks(context).decorate = [control = control_](std::unique_ptr<rail::Rail> rail,
                                                                 rail::Kind kind) {
    return kind == rail::Kind::tcp ? std::move(rail) : rail::make_fault_rail(std::move(rail), control);
  };
}

void Cutter::cut(Kind kind) {
  if (kind == Kind::error) {
    control_->cut_error("cut on purpose");
  } else {
    control_->cut_silent();
  }
}

// What was swallowed lands now, after the switch: the nasty thing that sick fabrics do.
void Cutter::give_back() {
  control_->release_late();
  control_->restore();
}

Cutter::Landed Cutter::landed() const {
  const rail::FaultCounts counts = control_->counts();
  return {counts.swallowed, counts.landed_late};
}

}  // namespace twinrail::tools
