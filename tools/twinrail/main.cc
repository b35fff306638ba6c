#include <csignal>
#include <fcntl.h>
#include <unistd.h>

#include "commands.h"

namespace {

// A standard stream that is closed would give its number to the next socket, and what is meant for a reader would go
// there. In its place comes something that refuses what the stream is for.
void hold_standard_streams() {
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) (void)!open("/dev/null", kModes[stream]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  // A peer or a pipe that went away is an error to handle, not to die of.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that has grown to the limit (ulimit -f).
  std::signal(SIGXFSZ, SIG_IGN);
  twinrail::tools::Cli cli;
  twinrail::tools::add_demo(cli);
  twinrail::tools::add_send(cli);
  twinrail::tools::add_recv(cli);
  twinrail::tools::add_bench(cli);
  twinrail::tools::add_knobs(cli);
  twinrail::tools::add_simulate(cli);
  return cli.run(argc, argv);
}
