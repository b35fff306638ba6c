// Purpose: from public options to what the layers below take.
// Thread: pure functions. The options have been validated.
#pragma once

#include "engine/settings.h"
#include <twinrail/options.h>

namespace twinrail::detail {

rail::VerbsOptions verbs_of(const RdmaOptions& options);
engine::SessionSettings settings_of(const SessionOptions& options);

}  // namespace twinrail::detail
