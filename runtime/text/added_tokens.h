#ifndef HEADWAY_RUNTIME_TEXT_ADDED_TOKENS_H_
#define HEADWAY_RUNTIME_TEXT_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/text/tokenizer_spec.h"

namespace headway::text {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

// Finds added tokens in text: leftmost first, of those the longest. Immutable and thread-safe.
//
// An added token is recognised in trusted text only, with one exception: what is not marked special
// and is a single character or nothing but white space (vocabularies hold spaces and letters such
// as U+00F6 that way) is ordinary text, which no one can be deceived by, and is recognised
// everywhere.
class AddedTokens {
 public:
  // InvalidArgument names a token that is empty or not UTF-8, or when they are longer than 1 MiB in
  // all.
  static absl::StatusOr<AddedTokens> Create(const std::vector<AddedToken>& tokens);

  struct Segment {
    TextRange range;
    int32_t id = -1;  // of an added token; -1: ordinary text
  };
  // Cuts valid UTF-8 into added tokens and the text between them, in order; no segment is empty
  // (but a token's range is what it takes with it, see AddedToken). `trusted`: ascending, disjoint,
  // not touching each other.
  std::vector<Segment> Split(std::string_view text, std::span<const TextRange> trusted) const;

  std::optional<int32_t> Find(std::string_view token) const;

 private:
  struct Node {
    int32_t token = -1;  // index into tokens_ of what is spelled by the way here
  };
  static bool IsOrdinary(const AddedToken& token);
  // The longest token at `begin` that may be recognised; those that are not ordinary end at or
  // before `trusted_end`. nullptr: none.
  const AddedToken* Match(std::string_view text, size_t begin, size_t trusted_end) const;

  std::vector<AddedToken> tokens_;
  // A trie: node 0 is the root; an edge is (node << 8 | byte).
  std::vector<Node> nodes_;
  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  bool starts_[256] = {};  // bytes that begin a token
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_ADDED_TOKENS_H_
