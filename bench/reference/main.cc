// twinrail_reference: the bare baselines that the comparison divides by, one a run, one JSON object on standard
// output. The letters are perftest's where it has them.
#include <getopt.h>
#include <string_view>

#include "reference/ping_pong.h"
#include "reference/spsc_ring.h"
#include "reference/tcp_loopback.h"

namespace {

using namespace twinrail::reference;

constexpr const char* kUsage =
    R"(usage: twinrail_reference WHAT [options]

  probe        two processes bounce a cache line, spinning and with PAUSE: placement of the two CPUs, stalls
  ping-pong    the same, one wait loop (--wait)
  ring         bare one-producer ring, one way (-s, -e, --ring, --wait)
  tcp-latency  raw busy-polled sockets over loopback, ping-pong (-s)
  tcp-rate     the same, one way (-s, -l)

  -s, --size N           message size in bytes (64; ring and tcp-rate: 256)
  -n, --iterations N     round trips or messages
  -D, --duration SECONDS instead of -n
  -l, --post-list N      tcp-rate: messages a send call (1)
  -e, --publish-every N  ring: messages a publication (1)
      --ring BYTES       ring: its size (262144)
      --wait WHAT        spin (default) or pause
      --cpus A,B         CPUs of the two processes (0,1); -1: not pinned
      --sibling-ns N     probe: a spinning round trip below is "siblings" (300)
      --deadline SECONDS the run is ended by a signal after this (120)
)";

struct Options {
  std::string_view what;
  std::uint32_t size = 0;
  Extent extent{0, 0};
  std::uint32_t batch = 1;
  std::uint32_t publish_every = 1;
  std::size_t ring_bytes = 256 * 1024;
  Wait wait = Wait::spin;
  Cpus cpus;
  std::uint64_t sibling_below_ns = 300;
  unsigned deadline_s = 120;
};

[[noreturn]] void usage(const char* problem, const char* value = "") {
  std::fprintf(stderr, "twinrail_reference: %s%s (see --help)\n", problem, value);
  std::exit(2);
}

std::uint64_t number(const char* text, std::uint64_t most = 1'000'000'000'000) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *text == '-' || value == 0 || value > most) {
    usage("not a number in range: ", text);
  }
  return value;
}

double seconds(const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value > 0) || value > 3600) usage("not a duration in seconds: ", text);
  return value;
}

Wait wait(std::string_view text) {
  if (text == "spin") return Wait::spin;
  if (text == "pause") return Wait::pause;
  usage("--wait is spin or pause, not ", text.data());
}

Cpus cpus(const char* text) {
  Cpus out;
  char rest = 0;
  if (std::sscanf(text, "%d,%d%c", &out.parent, &out.child, &rest) != 2 || out.parent < -1 ||
      out.child < -1) {
    usage("--cpus is two numbers A,B, not ", text);
  }
  return out;
}

void set(Options& o, int option) {
  switch (option) {
    case 's':
      o.size = static_cast<std::uint32_t>(number(optarg, 64 * 1024));
      break;
    case 'n':
      o.extent.iterations = number(optarg);
      break;
    case 'D':
      o.extent.seconds = seconds(optarg);
      break;
    case 'l':
      o.batch = static_cast<std::uint32_t>(number(optarg, 4096));
      break;
    case 'e':
      o.publish_every = static_cast<std::uint32_t>(number(optarg, 1u << 20));
      break;
    case 'r':
      o.ring_bytes = number(optarg, std::uint64_t{1} << 30);
      break;
    case 'w':
      o.wait = wait(optarg);
      break;
    case 'c':
      o.cpus = cpus(optarg);
      break;
    case 'b':
      o.sibling_below_ns = number(optarg);
      break;
    case 'd':
      o.deadline_s = static_cast<unsigned>(number(optarg, 86'400));
      break;
    case 'h':
      std::fputs(kUsage, stdout);
      std::exit(0);
    default:
      std::exit(2);  // getopt has said why
  }
}

Options parse(int argc, char** argv) {
  static const option kLong[] = {{"size", required_argument, nullptr, 's'},
                                 {"iterations", required_argument, nullptr, 'n'},
                                 {"duration", required_argument, nullptr, 'D'},
                                 {"post-list", required_argument, nullptr, 'l'},
                                 {"publish-every", required_argument, nullptr, 'e'},
                                 {"ring", required_argument, nullptr, 'r'},
                                 {"wait", required_argument, nullptr, 'w'},
                                 {"cpus", required_argument, nullptr, 'c'},
                                 {"sibling-ns", required_argument, nullptr, 'b'},
                                 {"deadline", required_argument, nullptr, 'd'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {}};
  Options o;
  int option;
  while ((option = getopt_long(argc, argv, "s:n:D:l:e:h", kLong, nullptr)) != -1) set(o, option);
  if (optind + 1 != argc) usage("say one thing to measure");
  o.what = argv[optind];
  return o;
}

void print(const char* name, const Latency& l, const char* end) {
  std::printf(
      "\"%s\": {\"samples\": %ju, \"min_ns\": %ju, \"p50_ns\": %ju, \"p99_ns\": %ju, \"p999_ns\": %ju, "
      "\"max_ns\": %ju, \"stalls_over_1ms\": %ju, \"stalled_ns\": %ju, \"cpu_ns_per_round_trip\": %ju}%s",
      name, std::uintmax_t{l.samples}, std::uintmax_t{l.min_ns}, std::uintmax_t{l.p50_ns},
      std::uintmax_t{l.p99_ns}, std::uintmax_t{l.p999_ns}, std::uintmax_t{l.max_ns},
      std::uintmax_t{l.stalls_over_1ms}, std::uintmax_t{l.stalled_ns},
      std::uintmax_t{l.cpu_ns_per_round_trip}, end);
}

void print(const Rate& r) {
  std::printf(
      "\"messages\": %ju, \"seconds\": %.6f, \"messages_per_second\": %.0f, \"bytes_per_second\": %.0f, "
      "\"producer_cpu_ns_per_message\": %.2f, \"consumer_cpu_ns_per_message\": %.2f}\n",
      std::uintmax_t{r.messages}, r.seconds, r.messages_per_second, r.bytes_per_second,
      r.producer_cpu_ns_per_message, r.consumer_cpu_ns_per_message);
}

Extent extent(const Options& o, std::uint64_t default_iterations) {
  Extent out = o.extent;
  if (out.iterations == 0) out.iterations = default_iterations;
  return out;
}

void run_probe(const Options& o) {
  const Probe p = probe(o.cpus, extent(o, 200'000), o.sibling_below_ns);
  std::printf("{\"what\": \"probe\", \"placement\": \"%s\", ", to_string(p.placement));
  print("spin", p.spin, ", ");
  print("pause", p.pause, "}\n");
}

void run_ping_pong(const Options& o) {
  const Extent e = extent(o, 200'000);
  const bool pause = o.wait == Wait::pause;
  std::printf("{\"what\": \"ping-pong\", \"wait\": \"%s\", ", pause ? "pause" : "spin");
  print("round_trip", pause ? ping_pong<Wait::pause>(o.cpus, e) : ping_pong<Wait::spin>(o.cpus, e), "}\n");
}

void run_ring(const Options& o) {
  RingSpec spec{o.size == 0 ? 256 : o.size, o.publish_every, o.ring_bytes};
  if (spec.ring_bytes < std::size_t{16} * spec.message_bytes) usage("--ring has to hold 16 messages");
  const Extent e = extent(o, 2'000'000);
  const bool pause = o.wait == Wait::pause;
  const Rate rate =
      pause ? ring_one_way<Wait::pause>(o.cpus, spec, e) : ring_one_way<Wait::spin>(o.cpus, spec, e);
  std::printf(
      "{\"what\": \"ring\", \"size\": %u, \"publish_every\": %u, \"ring_bytes\": %zu, \"wait\": \"%s\", ",
      spec.message_bytes, spec.publish_every, spec.ring_bytes, pause ? "pause" : "spin");
  print(rate);
}

void run_tcp_latency(const Options& o) {
  const TcpSpec spec{o.size == 0 ? 64 : o.size, 1};
  std::printf("{\"what\": \"tcp-latency\", \"size\": %u, ", spec.message_bytes);
  print("round_trip", tcp_ping_pong(o.cpus, spec, extent(o, 20'000)), "}\n");
}

void run_tcp_rate(const Options& o) {
  const TcpSpec spec{o.size == 0 ? 256 : o.size, o.batch};
  const Rate rate = tcp_one_way(o.cpus, spec, extent(o, 200'000));
  std::printf("{\"what\": \"tcp-rate\", \"size\": %u, \"post_list\": %u, ", spec.message_bytes, spec.batch);
  print(rate);
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  arm_deadline(o.deadline_s);
  if (o.what == "probe") {
    run_probe(o);
  } else if (o.what == "ping-pong") {
    run_ping_pong(o);
  } else if (o.what == "ring") {
    run_ring(o);
  } else if (o.what == "tcp-latency") {
    run_tcp_latency(o);
  } else if (o.what == "tcp-rate") {
    run_tcp_rate(o);
  } else {
    usage("unknown measurement: ", argv[optind]);
  }
  return 0;
}
