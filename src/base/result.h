// Purpose: the library's own layers take Result from here; it lives in the public headers, which stand alone.
#pragma once

#include <twinrail/result.h>  // IWYU pragma: export
