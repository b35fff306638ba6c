#include "common/folder.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace twinrail::tools {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "twinrail-";
constexpr std::size_t kNameLength = kPrefix.size() + 6;
constexpr const char* kLock = "lock";

// Only a folder of ours has a lock that is ours, and only a dead owner's lock can be taken.
void remove_if_left(const fs::path& folder) {
  const int lock = open((folder / kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0) return;
  struct stat status {};
  std::error_code ignored;
  if (fstat(lock, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
      flock(lock, LOCK_EX | LOCK_NB) == 0)
    fs::remove_all(folder, ignored);
  close(lock);
}

// Folders of runs that were killed.
void sweep(const fs::path& parent) {
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    std::error_code unknown;
    if (name.size() == kNameLength && name.rfind(kPrefix, 0) == 0 &&
        at->symlink_status(unknown).type() == fs::file_type::directory)
      remove_if_left(at->path());
  }
}

}  // namespace

Folder::~Folder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

Status Folder::make(const std::string& keep) {
  std::error_code error;
  if (!keep.empty()) {
    path_ = keep;
    fs::create_directories(path_, error);
    if (error) return Error{Code::invalid_argument, "--keep " + keep + ": " + error.message()};
    return {};
  }
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return Error{Code::invalid_argument, "TMPDIR: " + error.message()};
  sweep(parent);
  path_ = (parent / (std::string(kPrefix) + "XXXXXX")).string();
  if (mkdtemp(path_.data()) == nullptr) return system_error("mkdtemp " + path_);
  temporary_ = true;
  // Under its name only when it is held: nobody can take a lock that is not there.
  const std::string fresh = path("lock.new");
  lock_ = open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (lock_ < 0 || flock(lock_, LOCK_EX | LOCK_NB) != 0 || rename(fresh.c_str(), path(kLock).c_str()) != 0)
    return system_error("locking " + path_);
  return {};
}

}  // namespace twinrail::tools
