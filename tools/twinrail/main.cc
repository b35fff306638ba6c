#include <csignal>

#include "commands.h"

int main(int argc, char** argv) {
  // A peer or a pipe that went away is an error to handle, not to die of.
  std::signal(SIGPIPE, SIG_IGN);
  twinrail::tools::Cli cli;
  twinrail::tools::add_demo(cli);
  twinrail::tools::add_send(cli);
  twinrail::tools::add_recv(cli);
  twinrail::tools::add_bench(cli);
  twinrail::tools::add_knobs(cli);
  twinrail::tools::add_simulate(cli);
  return cli.run(argc, argv);
}
