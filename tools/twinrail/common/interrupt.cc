#include "common/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace twinrail::tools {

namespace {
volatile std::sig_atomic_t caught = 0;
}  // namespace

void watch_for_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { caught = signal; };
  // No SA_RESTART: whoever waits has to look. Once only: the second one is the system's.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

int interrupted() { return caught; }

}  // namespace twinrail::tools
