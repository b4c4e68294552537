#ifndef HEADWAY_RUNTIME_TEXT_VOCABULARY_H_
#define HEADWAY_RUNTIME_TEXT_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/text/tokenizer_spec.h"

namespace headway::text {

// What each token id stands for. Immutable and thread-safe.
class Vocabulary {
 public:
  // InvalidArgument when there are no tokens, more than 2^24, or an added token's id is out of
  // range.
  static absl::StatusOr<Vocabulary> Create(const TokenizerSpec& spec);

  int32_t size() const { return static_cast<int32_t>(offsets_.size()) - 1; }
  // Empty when `id` is out of range or stands for nothing.
  std::string_view bytes(int32_t id) const;
  // Bytes of the longest token.
  int64_t longest() const { return longest_; }
  bool is_special(int32_t id) const { return InRange(id) && (flags_[id] & kSpecial) != 0; }
  bool is_added(int32_t id) const { return InRange(id) && (flags_[id] & kAdded) != 0; }

  // The token that BPE may make of `bytes`: never a control token. -1: none.
  int32_t Find(std::string_view bytes) const;

 private:
  static constexpr uint8_t kAdded = 1, kSpecial = 2;
  bool InRange(int32_t id) const { return id >= 0 && id < size(); }

  std::string bytes_;              // of all tokens, one after the other
  std::vector<uint32_t> offsets_;  // [size + 1]
  int64_t longest_ = 0;
  std::vector<uint8_t> flags_;                     // [size]
  absl::flat_hash_map<std::string, int32_t> ids_;  // without control tokens
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_VOCABULARY_H_
