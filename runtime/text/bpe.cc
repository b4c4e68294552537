#include "runtime/text/bpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"
#include "runtime/text/byte_alphabet.h"

namespace headway::text {

absl::StatusOr<Bpe> Bpe::Create(const Vocabulary& vocabulary,
                                const std::vector<std::string>& merges) {
  Bpe bpe;
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    bpe.byte_ids_[b] = vocabulary.Find(std::string_view(&byte, 1));
  }
  bpe.merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ');
    const auto fail = [&](std::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer: merge ", rank, " (", Quoted(merge), ") ", ToAbsl(why)));
    };
    if (space == std::string_view::npos) return fail("has no space between its two tokens");
    const std::optional<std::string> left = BytesFromAlphabet(merge.substr(0, space));
    const std::optional<std::string> right = BytesFromAlphabet(merge.substr(space + 1));
    if (!left || !right) return fail("is not written in the byte alphabet");
    const int32_t left_id = vocabulary.Find(*left);
    const int32_t right_id = vocabulary.Find(*right);
    const int32_t id = vocabulary.Find(*left + *right);
    if (left_id < 0 || right_id < 0 || id < 0) return fail("names a token that does not exist");
    bpe.merges_.try_emplace(Key(left_id, right_id), Merge{static_cast<int32_t>(rank), id});
  }
  return bpe;
}

namespace {

// Orders a heap whose top is the most urgent merge, of equal ones the leftmost.
struct LessUrgent {
  template <typename Candidate>
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
};

}  // namespace

bool Bpe::Append(Scratch* scratch, int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return false;
  const int32_t left_id = scratch->symbols[left].id;
  const int32_t right_id = scratch->symbols[right].id;
  const auto it = merges_.find(Key(left_id, right_id));
  if (it == merges_.end()) return false;
  scratch->heap.push_back({it->second.rank, left, right, left_id, right_id, it->second.id});
  return true;
}

void Bpe::Encode(std::string_view piece, Scratch* scratch, std::vector<int32_t>* out) const {
  auto& symbols = scratch->symbols;
  auto& heap = scratch->heap;
  symbols.clear();
  heap.clear();
  for (const char c : piece) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id < 0) continue;
    const auto index = static_cast<int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({id, index - 1, -1});
  }
  for (size_t i = 1; i < symbols.size(); ++i) {
    Append(scratch, static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
  }
  std::make_heap(heap.begin(), heap.end(), LessUrgent());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), LessUrgent());
    const Scratch::Candidate candidate = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[candidate.left];
    Scratch::Symbol& right = symbols[candidate.right];
    if (left.id != candidate.left_id || right.id != candidate.right_id ||
        left.next != candidate.right) {
      continue;  // one of the two has been merged with another meanwhile
    }
    left.id = candidate.merged_id;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = candidate.left;
    right.id = -1;
    for (const auto& [l, r] :
         {std::pair(left.previous, candidate.left), std::pair(candidate.left, left.next)}) {
      if (Append(scratch, l, r)) std::push_heap(heap.begin(), heap.end(), LessUrgent());
    }
  }
  for (const Scratch::Symbol& symbol : symbols) {
    if (symbol.id >= 0) out->push_back(symbol.id);
  }
}

}  // namespace headway::text
