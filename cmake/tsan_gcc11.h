// Goes before everything else in the thread sanitizer's tree when GCC 11 compiles it.
//
// The sanitizer's runtime of GCC 11 does not know pthread_cond_clockwait and its relatives, which libstdc++ uses for waits
// with a deadline: it then takes the mutex for locked while the waiter sleeps and reports double locks that are none.
// Without these macros libstdc++ uses the older calls, which the runtime knows.
#pragma once

#include <bits/c++config.h>

#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
