#include "engine/rail_factory.h"

namespace twinrail::engine {

std::shared_ptr<RailSetup> begin_rail(RailRequest request) {
  switch (request.kind) {
    case rail::Kind::shm:
    case rail::Kind::tcp:
    case rail::Kind::verbs:
      break;
  }
  return nullptr;
}

}  // namespace twinrail::engine
