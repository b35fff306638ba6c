// Purpose: cuts this process's fast rails and gives them back, for demos and tests: the fault rail at the
//          engine's seam.
// Thread: the engine's.
// Ownership: the context that it was put into keeps what it needs; a Cutter may go first.
// Failures: none.
#pragma once

#include <memory>

#include <twinrail/engine.h>

namespace twinrail::rail {
class FaultControl;
}  // namespace twinrail::rail

namespace twinrail::tools {

class Cutter {
 public:
  enum class Kind : std::uint8_t {
    error,   // every fast rail fails, and each that comes up while it is cut
    silent,  // every fast rail takes what it is given, reports success, and moves nothing
  };

  struct Landed {
    std::uint64_t swallowed = 0;  // publications, reports and control messages that silent cuts took
    std::uint64_t late = 0;       // of these, those that arrived all the same, later
  };

  /// Before the first engine is made of `context`.
  explicit Cutter(Context& context);

  void cut(Kind kind);
  /// What silent cuts have swallowed lands first.
  void give_back();
  [[nodiscard]] Landed landed() const;

 private:
  std::shared_ptr<rail::FaultControl> control_;
};

}  // namespace twinrail::tools
