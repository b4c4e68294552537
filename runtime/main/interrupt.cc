#include "runtime/main/interrupt.h"

#include <csignal>
#include <cstdio>
#include <utility>

#include "runtime/base/log.h"

namespace headway {

Interrupt::Interrupt(std::string words) : words_(std::move(words)), watcher_([this] { Watch(); }) {}

void Interrupt::Watch() {
  if (WaitReadable(done_.fd(), signal_.fd()) == 0) return;
  const int number = signal_.Take();
  if (!words_.empty()) LogInfo(words_);
  {
    std::lock_guard lock(mutex_);
    number_ = number;
    if (scope_ != nullptr) scope_->Cancel();
  }
  asked_.Set();
  // This thread takes the next one, which does what it does to any process.
  signal_.Unblock();
  WaitReadable(done_.fd(), /*second=*/-1);
}

Interrupt::~Interrupt() {
  done_.Set();
  watcher_.join();
  if (number_ == 0) number_ = signal_.Take();  // one that came when the watcher had ended
  if (number_ == 0 || forgiven_) return;
  std::fflush(nullptr);
  signal_.Unblock();
  std::raise(number_);
}

Interrupt::Cancels::Cancels(Interrupt& interrupt, CallScope& scope) : interrupt_(interrupt) {
  std::lock_guard lock(interrupt.mutex_);
  interrupt.scope_ = &scope;
  if (interrupt.number_ != 0) scope.Cancel();
}

Interrupt::Cancels::~Cancels() {
  std::lock_guard lock(interrupt_.mutex_);
  interrupt_.scope_ = nullptr;
}

}  // namespace headway
