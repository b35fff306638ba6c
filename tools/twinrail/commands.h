// Purpose: the subcommands, one file each. Each function adds its own to the command line.
#pragma once

#include "common/cli.h"

namespace twinrail::tools {

void add_demo(Cli& cli);
void add_send(Cli& cli);
void add_recv(Cli& cli);
void add_bench(Cli& cli);
void add_knobs(Cli& cli);
void add_simulate(Cli& cli);

}  // namespace twinrail::tools
