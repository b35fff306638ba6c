// Purpose: the library's own layers take Reason from here; it lives in the public headers, which stand alone.
#pragma once

#include <twinrail/reason.h>  // IWYU pragma: export
