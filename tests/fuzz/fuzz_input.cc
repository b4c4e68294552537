#include "tests/fuzz/fuzz_input.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "runtime/base/utf8.h"

namespace headway::fuzz {

std::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

std::vector<std::string_view> Parts(const uint8_t* data, size_t size, size_t count) {
  std::string_view rest = Text(data, size);
  std::vector<std::string_view> parts(count);
  for (size_t i = 0; i + 1 < count; ++i) {
    const size_t end = rest.find('\0');
    parts[i] = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  parts[count - 1] = rest;
  return parts;
}

void Touch(std::span<const std::byte> bytes) {
  volatile unsigned char sink = 0;
  for (const std::byte byte : bytes) sink = sink ^ static_cast<unsigned char>(byte);
}

void CheckError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:
      break;
    default:
      HEADWAY_CHECK(!"an error that blames something else than the input");
  }
  const std::string message(status.message());
  HEADWAY_CHECK(!message.empty());
  HEADWAY_CHECK(IsUtf8(message));
}

InputFile::InputFile() : fd_(memfd_create("input", MFD_CLOEXEC)) {
  HEADWAY_CHECK(fd_ >= 0);
  path_ = absl::StrCat("/proc/self/fd/", fd_);
}

InputFile::~InputFile() { close(fd_); }

const std::string& InputFile::Write(std::span<const std::byte> contents) {
  HEADWAY_CHECK(ftruncate(fd_, 0) == 0);
  const ssize_t written = pwrite(fd_, contents.data(), contents.size(), 0);
  HEADWAY_CHECK(written == static_cast<ssize_t>(contents.size()));
  return path_;
}

}  // namespace headway::fuzz
