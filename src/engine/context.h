// Purpose: what the engines of one process share: who the process is, its sessions, its worker threads.
// Thread: any.
// Ownership: engines hold it shared.
#pragma once

#include "engine/registry.h"
#include "engine/settings.h"
#include "engine/worker.h"

namespace twinrail::engine {

class Context {
 public:
  explicit Context(ContextSettings settings);

  [[nodiscard]] const ContextSettings& settings() const { return settings_; }
  [[nodiscard]] const wire::Identity& self() const { return self_; }
  /// The same number in every process of one host and network namespace.
  [[nodiscard]] std::uint64_t host() const { return host_; }
  [[nodiscard]] Registry& registry() { return registry_; }
  [[nodiscard]] Worker& worker() { return worker_; }
  void log(Reason reason, const std::string& text) const {
    if (settings_.log) settings_.log(reason, text);
  }
  /// Before the first engine is made.
  [[nodiscard]] Hooks& hooks() { return settings_.hooks; }

 private:
  ContextSettings settings_;
  wire::Identity self_;
  std::uint64_t host_;
  Registry registry_;
  Worker worker_;
};

}  // namespace twinrail::engine
