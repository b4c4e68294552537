#ifndef HEADWAY_RUNTIME_TEXT_BPE_H_
#define HEADWAY_RUNTIME_TEXT_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/text/vocabulary.h"

namespace headway::text {

// Byte-pair encoding of one piece: starts from single bytes and joins the neighbours whose merge
// is the most urgent (of equal ones the leftmost) until no merge is left. n log n in the length of
// the piece. Immutable and thread-safe.
class Bpe {
 public:
  // `merges` as in TokenizerSpec. InvalidArgument names a merge that is malformed or one of whose
  // three tokens is not in `vocabulary`.
  static absl::StatusOr<Bpe> Create(const Vocabulary& vocabulary,
                                    const std::vector<std::string>& merges);

  // Working memory of Encode, kept between calls by the caller.
  class Scratch {
    friend class Bpe;
    struct Symbol {
      int32_t id;
      int32_t previous, next;  // neighbours that are still there; -1: none
    };
    struct Candidate {
      int32_t rank;
      int32_t left, right;        // symbols
      int32_t left_id, right_id;  // what they were; else the candidate is stale
      int32_t merged_id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Appends the ids of `piece` to *out. Bytes for which the vocabulary has no token are left out.
  void Encode(std::string_view piece, Scratch* scratch, std::vector<int32_t>* out) const;

 private:
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Puts the merge of two neighbouring symbols behind the heap, if there is one.
  bool Append(Scratch* scratch, int32_t left, int32_t right) const;

  std::array<int32_t, 256> byte_ids_{};  // -1: none
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_BPE_H_
