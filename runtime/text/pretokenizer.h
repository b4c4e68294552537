#ifndef HEADWAY_RUNTIME_TEXT_PRETOKENIZER_H_
#define HEADWAY_RUNTIME_TEXT_PRETOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/text/tokenizer_spec.h"

namespace headway::text {

// Rewrites a pattern of tokenizer.json (Oniguruma) for PCRE2 with UTF and UCP: \s and \S become the
// property White_Space (PCRE2's own \s takes U+180E too), \w the classes that Oniguruma means by
// it, ^ and $ match at lines. InvalidArgument names a construct whose meaning differs and has no
// translation (&&, nested classes, \h, \W in a class).
absl::StatusOr<std::string> PatternForPcre2(std::string_view pattern);

// Cuts text into the pieces that BPE works on. Immutable and thread-safe.
class Pretokenizer {
 public:
  // InvalidArgument names the pattern and what is wrong with it.
  static absl::StatusOr<Pretokenizer> Create(const std::vector<SplitStep>& steps);

  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // Appends the pieces of `text`, which must be valid UTF-8; they point into it, in order, and
  // none is empty. ResourceExhausted when a pattern reaches its limit of backtracking (hostile
  // text): the work of one match is bounded.
  absl::Status Split(std::string_view text, std::vector<std::string_view>* pieces) const;

 private:
  struct Step;
  explicit Pretokenizer(std::vector<std::unique_ptr<const Step>> steps);

  std::vector<std::unique_ptr<const Step>> steps_;
};

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_PRETOKENIZER_H_
