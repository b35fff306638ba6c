// Purpose: a folder for a run's files: a temporary one that goes with its owner, or one that the user named
//          and keeps.
// Thread: one.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <twinrail/result.h>

namespace twinrail::tools {

class Folder {
 public:
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }

  /// `keep` empty: a new one below TMPDIR.
  Status make(const std::string& keep) {
    std::error_code error;
    if (!keep.empty()) {
      path_ = keep;
      std::filesystem::create_directories(path_, error);
      if (error) return Error{Code::invalid_argument, "--keep " + keep + ": " + error.message()};
      return {};
    }
    path_ = (std::filesystem::temp_directory_path(error) / "twinrail-XXXXXX").string();
    if (error) return Error{Code::invalid_argument, "TMPDIR: " + error.message()};
    if (mkdtemp(path_.data()) == nullptr) return system_error("mkdtemp " + path_);
    temporary_ = true;
    return {};
  }

  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool temporary_ = false;
};

}  // namespace twinrail::tools
