#include "common/cpu.h"

#include <cstdio>
#include <sched.h>
#include <unistd.h>

namespace twinrail::tools {

unsigned usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

bool cpus_to_spare(unsigned wanted) {
  constexpr int kLooks = 8;
  constexpr useconds_t kBetween = 5000;
  double others = 0;
  for (int i = 0; i < kLooks; ++i) {
    unsigned running = 1;
    if (std::FILE* file = std::fopen("/proc/loadavg", "re"); file != nullptr) {
      // "0.20 0.18 0.12 1/80 11206": the fourth number counts what runs or wants to at this moment, us included.
      if (std::fscanf(file, "%*f %*f %*f %u", &running) != 1) running = 1;
      std::fclose(file);
    }
    others += running > 0 ? running - 1 : 0;
    usleep(kBetween);
  }
  return others / kLooks + wanted <= usable_cpus() + 0.5;
}

}  // namespace twinrail::tools
