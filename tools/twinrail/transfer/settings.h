// Purpose: the knobs that suit a transfer, overruled by the user's.
#pragma once

#include <string>

#include "common/knobs.h"

namespace twinrail::tools {

Result<Settings> transfer_settings(const std::string& rail, bool cutting, const Knobs& knobs);

}  // namespace twinrail::tools
