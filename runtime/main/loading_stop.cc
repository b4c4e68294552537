#include "runtime/main/loading_stop.h"

#include <unistd.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"

namespace headway {

LoadingStop::LoadingStop(StopSignal& signal) : signal_(signal), watcher_([this] { Watch(); }) {}

void LoadingStop::Watch() {
  if (WaitReadable(over_.fd(), signal_.fd()) == 0) return;
  const int number = signal_.Take();
  LogWarning(absl::StrCat("asked to stop by signal ", number, " before it served: ends at once"));
  // This thread takes the next one, which does what it does to any process.
  signal_.Unblock();
  std::lock_guard lock(mutex_);
  if (launcher_ != nullptr) launcher_->KillAll();
  std::raise(number);
  // Where whoever started this process had it ignore the signal.
  _exit(128 + number);
}

void LoadingStop::Over() {
  over_.Set();
  if (watcher_.joinable()) watcher_.join();
}

LoadingStop::~LoadingStop() { Over(); }

LoadingStop::Kills::Kills(LoadingStop& loading, Launcher& launcher) : loading_(loading) {
  std::lock_guard lock(loading.mutex_);
  loading.launcher_ = &launcher;
}

LoadingStop::Kills::~Kills() {
  std::lock_guard lock(loading_.mutex_);
  loading_.launcher_ = nullptr;
}

}  // namespace headway
