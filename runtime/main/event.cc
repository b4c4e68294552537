#include "runtime/main/event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "runtime/base/check.h"

namespace headway {

Event::Event() : fd_(eventfd(0, EFD_CLOEXEC)) { HEADWAY_CHECK(fd_ >= 0); }
Event::~Event() { close(fd_); }

void Event::Set() {
  const uint64_t one = 1;
  // Fails only when the count would pass 2^64 - 2; then it is readable already.
  (void)!write(fd_, &one, sizeof(one));
}

}  // namespace headway
