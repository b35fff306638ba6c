// Purpose: everything an application needs: context, engine, sessions, options, reasons.
#pragma once

#include <twinrail/engine.h>   // IWYU pragma: export
#include <twinrail/options.h>  // IWYU pragma: export
#include <twinrail/reason.h>   // IWYU pragma: export
#include <twinrail/result.h>   // IWYU pragma: export
#include <twinrail/session.h>  // IWYU pragma: export
