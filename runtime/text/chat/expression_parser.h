#ifndef HEADWAY_RUNTIME_TEXT_CHAT_EXPRESSION_PARSER_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_EXPRESSION_PARSER_H_

#include <initializer_list>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/chat/ast.h"
#include "runtime/text/chat/token_stream.h"

namespace headway::text::chat {

// Levels of nesting that are open; expressions and blocks share one count.
class Nesting {
 public:
  explicit Nesting(int limit) : limit_(limit) {}
  // Opens a level as long as it lives.
  class Level {
   public:
    explicit Level(Nesting* nesting) : nesting_(nesting) { ++nesting_->open_; }
    ~Level() { --nesting_->open_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Nesting* nesting_;
  };
  absl::Status Check(int line) const;

 private:
  int limit_;
  int open_ = 0;
};

// Reads expressions by recursive descent, one function a level of precedence.
class ExpressionParser {
 public:
  ExpressionParser(TokenStream* tokens, Nesting* nesting) : tokens_(*tokens), nesting_(*nesting) {}

  // With `x if y else z`, or (for the iterable of a loop) without.
  absl::StatusOr<ExpressionPtr> Parse(bool with_conditional = true);
  // An expression, or several with commas between: a tuple. Stops before a name in `ends`.
  absl::StatusOr<ExpressionPtr> ParseTuple(bool with_conditional = true,
                                           std::string_view end_name = {});
  // The name and arguments of a filter, then `|` and further ones.
  absl::StatusOr<std::vector<FilterStep>> ParseFilters();
  // A primary with its attributes, items and calls.
  absl::StatusOr<ExpressionPtr> ParsePostfix();

  // Whether `varargs` or `kwargs` has been named since the last reset.
  struct SpecialNames {
    bool varargs = false, kwargs = false;
  };
  SpecialNames special_names;

 private:
  using Result = absl::StatusOr<ExpressionPtr>;
  Result ParseConditional();
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseComparison();
  Result ParseSum();
  Result ParseConcatenation();
  Result ParseProduct();
  Result ParsePower();
  Result ParseUnary(bool with_filters);
  Result ParsePrimary();
  Result ParseNumber();
  Result ParseParentheses();
  Result ParseList();
  Result ParseDict();
  absl::Status ParseSubscript(std::vector<Step>* steps);
  absl::StatusOr<CallArguments> ParseArguments();
  absl::Status ParseArgument(CallArguments* arguments);
  absl::StatusOr<FilterStep> ParseFilter();
  absl::StatusOr<TestStep> ParseTest();
  // attribute, item and call steps; with filters and tests too.
  absl::StatusOr<ExpressionPtr> ParseSteps(ExpressionPtr base, bool with_filters);
  absl::StatusOr<std::string> ParseDottedName();

  TokenStream& tokens_;
  Nesting& nesting_;
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_EXPRESSION_PARSER_H_
