#include "common/knobs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/units.h"

namespace twinrail::tools {

namespace {

using Nanoseconds = std::chrono::nanoseconds;

Error invalid(std::string message) { return Error{Code::invalid_argument, std::move(message)}; }

// Each kind of knob is a pair of functions over a member that `get` picks.

template <auto Get>
constexpr Knob duration_knob(std::string_view name, std::string_view meaning) {
  return {name, meaning,
          [](const Settings& s) { return format_duration(Get(const_cast<Settings&>(s)).count()); },
          [](Settings& s, std::string_view text) -> Status {
            const auto parsed = parse_duration(text);
            if (!parsed) return parsed.error();
            Get(s) = Nanoseconds(*parsed);
            return {};
          }};
}

template <auto Get>
constexpr Knob bytes_knob(std::string_view name, std::string_view meaning) {
  return {name, meaning, [](const Settings& s) { return format_bytes(Get(const_cast<Settings&>(s))); },
          [](Settings& s, std::string_view text) -> Status {
            const auto parsed = parse_bytes(text);
            if (!parsed) return parsed.error();
            Get(s) = static_cast<std::size_t>(*parsed);
            return {};
          }};
}

Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t at_most) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || value > at_most)
    return invalid(fmt::format("expected a number from 0 to {}, got \"{}\"", at_most, text));
  return value;
}

template <auto Get, std::uint64_t kMost>
constexpr Knob count_knob(std::string_view name, std::string_view meaning) {
  return {name, meaning, [](const Settings& s) { return std::to_string(Get(const_cast<Settings&>(s))); },
          [](Settings& s, std::string_view text) -> Status {
            const auto parsed = parse_count(text, kMost);
            if (!parsed) return parsed.error();
            Get(s) = static_cast<std::remove_reference_t<decltype(Get(s))>>(*parsed);
            return {};
          }};
}

template <auto Get>
constexpr Knob switch_knob(std::string_view name, std::string_view meaning) {
  return {name, meaning,
          [](const Settings& s) { return std::string(Get(const_cast<Settings&>(s)) ? "on" : "off"); },
          [](Settings& s, std::string_view text) -> Status {
            const bool on = text == "on" || text == "true" || text == "1";
            if (!on && text != "off" && text != "false" && text != "0")
              return invalid(fmt::format("expected on or off, got \"{}\"", text));
            Get(s) = on;
            return {};
          }};
}

std::string show_breaker(const Settings& s) { return s.connect.session.breaker.name; }

Status set_breaker(Settings& s, std::string_view text) {
  if (text == "default") {
    s.connect.session.breaker = BreakerOptions::standard();
  } else if (text == "eager") {
    s.connect.session.breaker = BreakerOptions::eager();
  } else {
    return invalid(fmt::format("expected default or eager, got \"{}\"", text));
  }
  return {};
}

std::string show_idle(const Settings& s) { return std::string(to_string(s.engine.idle)); }

Status set_idle(Settings& s, std::string_view text) {
  for (const Idle idle : {Idle::busy_spin, Idle::back_off, Idle::blocking}) {
    if (text == to_string(idle)) {
      s.engine.idle = idle;
      return {};
    }
  }
  return invalid(fmt::format("expected busy_spin, back_off or blocking, got \"{}\"", text));
}

std::string show_cpu(const Settings& s) { return s.engine.cpu < 0 ? "auto" : std::to_string(s.engine.cpu); }

Status set_cpu(Settings& s, std::string_view text) {
  if (text == "auto") {
    s.engine.cpu = -1;
    return {};
  }
  const auto parsed = parse_count(text, 4095);
  if (!parsed) return invalid(fmt::format("expected auto or a CPU's number, got \"{}\"", text));
  s.engine.cpu = static_cast<int>(*parsed);
  return {};
}

std::string show_device(const Settings& s) {
  const std::string& device = s.context.rdma.device;
  return device.empty() ? "auto" : device;
}

Status set_device(Settings& s, std::string_view text) {
  s.context.rdma.device = text == "auto" ? "" : std::string(text);
  return {};
}

std::string show_instance(const Settings& s) {
  return s.context.instance == 0 ? "auto" : std::to_string(s.context.instance);
}

Status set_instance(Settings& s, std::string_view text) {
  if (text == "auto") {
    s.context.instance = 0;
    return {};
  }
  const auto parsed = parse_count(text, ~std::uint64_t{0});
  if (!parsed) return parsed.error();
  s.context.instance = *parsed;
  return {};
}

SessionOptions& session(Settings& s) { return s.connect.session; }
BreakerOptions& breaker(Settings& s) { return s.connect.session.breaker; }

// The words between "TWINRAIL_" and the second underscore that are ours; other TWINRAIL_ variables are not knobs.
constexpr std::string_view kSubsystems[] = {"context", "engine", "connect", "session", "breaker", "rdma"};

std::size_t find_knob(std::string_view name) {
  const auto& knobs = all_knobs();
  const auto found = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == name; });
  return static_cast<std::size_t>(found - knobs.begin());
}

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "on" : "off";
  return {};
}

}  // namespace

const std::vector<Knob>& all_knobs() {
  static const std::vector<Knob> knobs = {
      {"context.instance", "who this process is to its peers; auto: drawn at random", show_instance,
       set_instance},
      count_knob<[](Settings& s) -> std::size_t& { return s.context.max_sessions; }, (1u << 24)>(
          "context.max_sessions", "sessions of this process at most"),
      {"engine.idle", "waiting: busy_spin, back_off or blocking", show_idle, set_idle},
      {"engine.cpu", "CPU that the engine's thread is pinned to; auto: none", show_cpu, set_cpu},
      duration_knob<[](Settings& s) -> Nanoseconds& { return s.connect.deadline; }>(
          "connect.deadline", "dialling until the first connection stands"),
      bytes_knob<[](Settings& s) -> std::size_t& { return session(s).send_ring_bytes; }>(
          "session.send_ring", "size of the ring that we send from, a power of two"),
      bytes_knob<[](Settings& s) -> std::size_t& { return session(s).receive_ring_bytes; }>(
          "session.receive_ring", "size of the ring that the dialled peer sends from"),
      switch_knob<[](Settings& s) -> bool& { return session(s).fast_rails; }>("session.fast_rails",
                                                                              "off: TCP only"),
      switch_knob<[](Settings& s) -> bool& { return session(s).shm; }>(
          "session.shm", "offer shared memory to peers on this host"),
      switch_knob<[](Settings& s) -> bool& { return session(s).verbs; }>(
          "session.verbs", "offer RDMA where both ends have a device"),
      switch_knob<[](Settings& s) -> bool& { return session(s).verbs_first; }>(
          "session.verbs_first", "on one host, too: RDMA before shared memory"),
      {"rdma.device", "use this RDMA device only; auto: any that leads to the peer", show_device, set_device},
      count_knob<[](Settings& s) -> unsigned& { return s.context.rdma.traffic_class; }, 255>(
          "rdma.traffic_class", "of RDMA packets: DSCP in the upper six bits"),
      count_knob<[](Settings& s) -> unsigned& { return s.context.rdma.ack_timeout; }, 31>(
          "rdma.ack_timeout", "4.096 us * 2^n until the device sends again, 1 to 31"),
      count_knob<[](Settings& s) -> unsigned& { return s.context.rdma.retry_count; }, 7>("rdma.retry_count",
                                                                                         "how often, 1 to 6"),
      count_knob<[](Settings& s) -> unsigned& { return s.context.rdma.max_inline; }, 4096>(
          "rdma.max_inline", "bytes that go along with a work request"),
      switch_knob<[](Settings& s) -> bool& { return s.context.rdma.immediate; }>(
          "rdma.immediate", "off: publish by message, as on iWARP"),
      switch_knob<[](Settings& s) -> bool& { return s.context.rdma.shared_receives; }>(
          "rdma.shared_receives", "off: each connection has its own receives"),
      duration_knob<[](Settings& s) -> Nanoseconds& { return session(s).suspicion; }>(
          "session.suspicion", "silence of the fast rail until we ask over TCP"),
      duration_knob<[](Settings& s) -> Nanoseconds& { return session(s).hedge; }>(
          "session.hedge", "both rails for so long, then retreat"),
      duration_knob<[](Settings& s) -> Nanoseconds& { return session(s).heartbeat; }>(
          "session.heartbeat", "sign of life on each rail"),
      duration_knob<[](Settings& s) -> Nanoseconds& { return session(s).tcp_silence; }>(
          "session.tcp_silence", "silence of TCP until it counts as lost"),
      duration_knob<[](Settings& s) -> Nanoseconds& { return session(s).session_deadline; }>(
          "session.deadline", "no rail for so long ends the session"),
      count_knob<[](Settings& s) -> std::size_t& { return session(s).max_held; }, (1u << 24)>(
          "session.max_held", "received messages held at once"),
      {"breaker.preset", "default or eager: sets the knobs below", show_breaker, set_breaker},
      duration_knob<[](Settings& s) -> Nanoseconds& { return breaker(s).first_delay; }>(
          "breaker.first_delay", "until a failed fast rail is tried again"),
      duration_knob<[](Settings& s) -> Nanoseconds& { return breaker(s).max_delay; }>(
          "breaker.max_delay", "the delay doubles up to here"),
      duration_knob<[](Settings& s) -> Nanoseconds& { return breaker(s).forgive_after; }>(
          "breaker.forgive_after", "good service after which the delay starts anew"),
      count_knob<[](Settings& s) -> unsigned& { return breaker(s).jitter_percent; }, 100>(
          "breaker.jitter_percent", "part of the delay that is drawn at random"),
  };
  return knobs;
}

std::string Knob::variable() const {
  std::string text = "TWINRAIL_";
  for (const char c : name)
    text += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string Knob::flag() const {
  std::string text = "--";
  for (const char c : name) text += c == '.' || c == '_' ? '-' : c;
  return text;
}

bool Knobs::set(std::string_view name) const { return values_[find_knob(name)].source != Source::built_in; }

Status Knobs::take(std::size_t knob, Value value) {
  Settings scratch;
  const Status set = all_knobs()[knob].set(scratch, value.text);
  if (!set) return set.error().while_doing(value.where);
  values_[knob] = std::move(value);
  return {};
}

Status Knobs::load_environment() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || line.substr(0, 9) != "TWINRAIL_") continue;
    const std::string variable(line.substr(0, equals));
    const auto& knobs = all_knobs();
    const auto found =
        std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.variable() == variable; });
    if (found != knobs.end()) {
      const Status taken = take(static_cast<std::size_t>(found - knobs.begin()),
                                {std::string(line.substr(equals + 1)), Source::environment, variable});
      if (!taken) return taken;
      continue;
    }
    std::string subsystem = variable.substr(9, variable.find('_', 9) - 9);
    for (char& c : subsystem) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (std::find(std::begin(kSubsystems), std::end(kSubsystems), subsystem) != std::end(kSubsystems))
      return invalid(fmt::format("{}: there is no such knob; `twinrail knobs` lists them", variable));
  }
  return {};
}

Status Knobs::load_file(const std::string& path) {
  // The parser takes what cannot be read, a folder say, for an empty file.
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored) &&
      path != "/dev/null")
    return invalid(fmt::format("{}: is no file", path));
  const toml::parse_result parsed = toml::parse_file(path);
  if (!parsed) {
    const auto& error = parsed.error();
    const auto at = error.source().begin;
    if (!at) return invalid(fmt::format("{}: {}", path, error.description()));
    return invalid(fmt::format("{}:{}:{}: {}", path, at.line, at.column, error.description()));
  }
  for (const auto& [subsystem, node] : parsed.table()) {
    const auto* section = node.as_table();
    const auto line = node.source().begin.line;
    if (section == nullptr)
      return invalid(fmt::format("{}:{}: \"{}\" is in no section; write [session] above it, or the like",
                                 path, line, subsystem.str()));
    for (const auto& [key, entry] : *section) {
      const std::string name = fmt::format("{}.{}", subsystem.str(), key.str());
      const std::string where = fmt::format("{}:{}", path, entry.source().begin.line);
      const std::size_t knob = find_knob(name);
      if (knob == all_knobs().size())
        return invalid(fmt::format("{}: there is no knob {}; `twinrail knobs` lists them", where, name));
      const std::string text = text_of(entry);
      if (text.empty()) return invalid(fmt::format("{}: {} takes one value, like \"10ms\"", where, name));
      const Status taken = take(knob, {text, Source::file, where});
      if (!taken) return taken.error().while_doing(name);
    }
  }
  return {};
}

Status Knobs::load(const std::string& config_path) {
  if (const Status read = load_environment(); !read) return read;
  if (!config_path.empty()) {
    if (const Status read = load_file(config_path); !read) return read;
  }
  for (const auto& [knob, text] : given_) {
    const Status taken = take(knob, {text, Source::command_line, all_knobs()[knob].flag()});
    if (!taken) return taken;
  }
  return {};
}

Status Knobs::apply(Settings& settings) const {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].source == Source::built_in) continue;
    if (const Status set = all_knobs()[i].set(settings, values_[i].text); !set) return set;
  }
  if (const Status valid = settings.connect.session.validate(); !valid) return valid;
  return settings.engine.validate();
}

}  // namespace twinrail::tools
