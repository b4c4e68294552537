#ifndef HEADWAY_RUNTIME_CHECKPOINT_BYTE_READER_H_
#define HEADWAY_RUNTIME_CHECKPOINT_BYTE_READER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace headway {

static_assert(std::endian::native == std::endian::little, "files are little endian, read in place");

// Reads a file image from front to back. Nothing is read past its end: DataLoss says where the file
// ends and what was to follow (`what`, a plain literal, e.g. "the number of tensors").
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // The next `count` bytes, where they lie.
  absl::StatusOr<std::span<const std::byte>> Take(uint64_t count, const char* what) {
    if (count > remaining()) return EndsEarly(count, what);
    const std::span<const std::byte> taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <class T>
  absl::StatusOr<T> Read(const char* what) {
    if (sizeof(T) > remaining()) return EndsEarly(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // A 64-bit length, then that many bytes.
  absl::StatusOr<std::string_view> ReadString(const char* what) {
    const absl::StatusOr<uint64_t> length = Read<uint64_t>(what);
    if (!length.ok()) return length.status();
    const absl::StatusOr<std::span<const std::byte>> text = Take(*length, what);
    if (!text.ok()) return text.status();
    return std::string_view(reinterpret_cast<const char*>(text->data()), text->size());
  }

 private:
  absl::Status EndsEarly(uint64_t count, const char* what) const {
    return absl::DataLossError(absl::StrCat("the file ends after ", bytes_.size(), " bytes, but ",
                                            what, " (", count, " bytes at byte ", position_,
                                            ") does not fit; is it truncated?"));
  }

  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

// a * b, or false when that exceeds 2^63 - 1. Both at least 0.
inline bool MultiplyFits(int64_t a, int64_t b, int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_BYTE_READER_H_
