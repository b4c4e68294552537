#include "runtime/cluster/output_tail.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace headway {
namespace {

constexpr size_t kMaxLines = 16;
constexpr size_t kMaxLineBytes = 4000;  // longer ones are cut; below what a pipe takes whole
constexpr int kMaxForwardWaitMillis = 100;

}  // namespace

bool OutputTail::ReadFrom(int fd) {
  char bytes[4096];
  const ssize_t count = read(fd, bytes, sizeof(bytes));
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  Append({bytes, static_cast<size_t>(count)});
  return count > 0;
}

void OutputTail::Append(std::string_view bytes) {
  for (char c : bytes) {
    if (c == '\n' || partial_.size() == kMaxLineBytes) EndLine();
    if (c != '\n') partial_.push_back(c);
  }
}

void OutputTail::Flush() {
  if (!partial_.empty()) EndLine();
}

void OutputTail::EndLine() {
  if (forward_fd_ >= 0) {
    const std::string line = partial_ + "\n";
    // A line that cannot be passed on, or that nobody reads, is lost: who watches processes must
    // not be held up by a full pipe or a paused terminal.
    pollfd writable{forward_fd_, POLLOUT, 0};
    if (poll(&writable, 1, kMaxForwardWaitMillis) == 1) {
      (void)!write(forward_fd_, line.data(), line.size());
    }
  }
  if (!partial_.empty()) lines_.push_back(std::move(partial_));
  partial_.clear();
  if (lines_.size() > kMaxLines) lines_.pop_front();
}

std::string OutputTail::LastWords(int lines) const {
  const size_t wanted = std::min(lines_.size(), static_cast<size_t>(lines));
  std::string words;
  for (size_t i = lines_.size() - wanted; i < lines_.size(); ++i) {
    if (!words.empty()) words += " | ";
    words += lines_[i];
  }
  return words;
}

}  // namespace headway
