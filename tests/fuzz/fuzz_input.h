#ifndef HEADWAY_TESTS_FUZZ_FUZZ_INPUT_H_
#define HEADWAY_TESTS_FUZZ_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace headway::fuzz {

// The input as text, and cut at its NUL bytes into `count` texts; the last may hold more of them,
// and missing ones are empty. Views into the input.
std::string_view Text(const uint8_t* data, size_t size);
std::vector<std::string_view> Parts(const uint8_t* data, size_t size, size_t count);

// Reads every byte, for ASan to see that it may be read.
void Touch(std::span<const std::byte> bytes);

// What must hold of every error that an input provokes: it blames the input, and its message is
// text that a client can be sent.
void CheckError(const absl::Status& status);

// A file in memory, for code that opens files by path.
class InputFile {
 public:
  InputFile();
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Replaces the contents; nothing may have the file mapped. Returns its path.
  const std::string& Write(std::span<const std::byte> contents);

 private:
  int fd_;
  std::string path_;
};

}  // namespace headway::fuzz

#endif  // HEADWAY_TESTS_FUZZ_FUZZ_INPUT_H_
