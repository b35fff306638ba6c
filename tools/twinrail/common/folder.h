// Purpose: a folder for a run's files: a temporary one that goes with its owner, or one that the user named
//          and keeps. A temporary one holds a locked file, so that what a killed run has left is told from
//          what a live one uses, and goes with the next run.
// Thread: one.
#pragma once

#include <string>

#include <twinrail/result.h>

namespace twinrail::tools {

class Folder {
 public:
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  /// `keep` empty: a new one below TMPDIR.
  Status make(const std::string& keep);

  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool temporary_ = false;
  int lock_ = -1;
};

}  // namespace twinrail::tools
