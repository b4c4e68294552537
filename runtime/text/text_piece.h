#ifndef HEADWAY_RUNTIME_TEXT_TEXT_PIECE_H_
#define HEADWAY_RUNTIME_TEXT_TEXT_PIECE_H_

#include <string>

namespace headway::text {

// A part of a prompt and where it comes from. Trusted text (a chat template's own) may spell
// control tokens; untrusted text (what a request holds) is ordinary text whatever it spells.
struct TextPiece {
  std::string text;
  bool is_trusted = false;
  bool operator==(const TextPiece&) const = default;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_TEXT_PIECE_H_
