#include "runtime/text/chat/parser.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/base/utf8.h"
#include "runtime/text/chat/expression_parser.h"
#include "runtime/text/chat/lexer.h"
#include "runtime/text/chat/token_stream.h"

namespace headway::text::chat {
namespace {

using StatementPtr = std::unique_ptr<const Statement>;
using EndTags = std::initializer_list<std::string_view>;

template <typename Node>
StatementPtr Make(int line, Node node) {
  return std::make_unique<const Statement>(Statement{line, std::move(node)});
}

class Parser {
 public:
  Parser(std::vector<Token> tokens, int max_depth)
      : tokens_(std::move(tokens)), nesting_(max_depth), expressions_(&tokens_, &nesting_) {}

  absl::StatusOr<Body> ParseAll() { return ParseBody({}); }

 private:
  // Statements up to one of the tags `ends`, whose name is then current; up to the end of the
  // template when there are none.
  absl::StatusOr<Body> ParseBody(EndTags ends) {
    const Nesting::Level level(&nesting_);
    HEADWAY_RETURN_IF_ERROR(nesting_.Check(tokens_.line()));
    Body body;
    while (true) {
      const Token& token = tokens_.current();
      const int line = token.line;
      if (token.kind == TokenKind::kText) {
        body.push_back(Make(line, Text{Value::Literal(token.text)}));
        tokens_.Advance();
      } else if (token.kind == TokenKind::kPrint) {
        tokens_.Advance();
        HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr expression, expressions_.ParseTuple());
        HEADWAY_RETURN_IF_ERROR(tokens_.ExpectKind(TokenKind::kPrintEnd, "'}}'"));
        body.push_back(Make(line, Print{std::move(expression)}));
      } else if (token.kind == TokenKind::kBlock) {
        tokens_.Advance();
        for (const std::string_view end : ends) {
          if (tokens_.IsName(end)) return body;
        }
        HEADWAY_RETURN_IF_ERROR(ParseBlock(&body));
      } else {  // kEnd: other kinds stand inside tags only
        if (ends.size() == 0) return body;
        std::string tags;
        for (const std::string_view end : ends) {
          absl::StrAppend(&tags, tags.empty() ? "" : " or ", "'", ToAbsl(end), "'");
        }
        return SyntaxError(line, absl::StrCat("unexpected end of the template, expected ", tags));
      }
    }
  }

  absl::Status EndTag(std::string_view name) {
    HEADWAY_RETURN_IF_ERROR(tokens_.ExpectName(name));
    return tokens_.ExpectKind(TokenKind::kBlockEnd, "'%}'");
  }

  absl::Status BlockEnd() { return tokens_.ExpectKind(TokenKind::kBlockEnd, "'%}'"); }

  absl::Status ParseBlock(Body* body) {
    const int line = tokens_.line();
    const std::string tag = tokens_.current().text;
    HEADWAY_RETURN_IF_ERROR(tokens_.ExpectKind(TokenKind::kName, "a tag name"));
    absl::StatusOr<StatementPtr> statement;
    if (tag == "if") {
      statement = ParseIf(line);
    } else if (tag == "for") {
      statement = ParseFor(line);
    } else if (tag == "set") {
      statement = ParseSet(line);
    } else if (tag == "macro") {
      statement = ParseMacro(line);
    } else if (tag == "call") {
      statement = ParseCall(line);
    } else if (tag == "filter") {
      statement = ParseFilterBlock(line);
    } else if (tag == "with") {
      statement = ParseWith(line);
    } else if (tag == "print") {
      HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr expression, expressions_.ParseTuple());
      HEADWAY_RETURN_IF_ERROR(BlockEnd());
      statement = Make(line, Print{std::move(expression)});
    } else if (tag == "break") {
      HEADWAY_RETURN_IF_ERROR(LoopControl(line, tag));
      statement = Make(line, Break{});
    } else if (tag == "continue") {
      HEADWAY_RETURN_IF_ERROR(LoopControl(line, tag));
      statement = Make(line, Continue{});
    } else if (tag == "generation") {
      // Marks what the assistant wrote, for training; here it only groups.
      HEADWAY_RETURN_IF_ERROR(BlockEnd());
      With block;
      HEADWAY_ASSIGN_OR_RETURN(block.body, ParseBody({"endgeneration"}));
      HEADWAY_RETURN_IF_ERROR(EndTag("endgeneration"));
      statement = Make(line, std::move(block));
    } else {
      return SyntaxError(line, absl::StrCat("the tag ", Quoted(tag), " is not known here"));
    }
    HEADWAY_RETURN_IF_ERROR(statement.status());
    body->push_back(*std::move(statement));
    return absl::OkStatus();
  }

  absl::Status LoopControl(int line, const std::string& tag) {
    if (loops_ == 0) return SyntaxError(line, absl::StrCat("'", tag, "' outside a loop"));
    return BlockEnd();
  }

  absl::StatusOr<StatementPtr> ParseIf(int line) {
    If node;
    while (true) {
      HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr condition, expressions_.ParseTuple());
      HEADWAY_RETURN_IF_ERROR(BlockEnd());
      HEADWAY_ASSIGN_OR_RETURN(Body body, ParseBody({"elif", "else", "endif"}));
      node.branches.emplace_back(std::move(condition), std::move(body));
      if (!tokens_.TakeName("elif")) break;
    }
    if (tokens_.IsName("else")) {
      HEADWAY_RETURN_IF_ERROR(EndTag("else"));
      HEADWAY_ASSIGN_OR_RETURN(node.otherwise, ParseBody({"endif"}));
    }
    HEADWAY_RETURN_IF_ERROR(EndTag("endif"));
    return Make(line, std::move(node));
  }

  absl::StatusOr<Target> ParseTargetName(bool with_attribute) {
    const Token token = tokens_.current();
    HEADWAY_RETURN_IF_ERROR(tokens_.ExpectKind(TokenKind::kName, "a name"));
    for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
      if (token.text == constant) {
        return SyntaxError(token.line, absl::StrCat("can't assign to '", token.text, "'"));
      }
    }
    Target target;
    target.name = token.text;
    if (with_attribute && tokens_.TakeOperator(".")) {
      target.attribute = tokens_.current().text;
      HEADWAY_RETURN_IF_ERROR(tokens_.ExpectKind(TokenKind::kName, "a name"));
    }
    return target;
  }

  // A name, or several with commas between, perhaps in parentheses.
  absl::StatusOr<Target> ParseTarget(bool with_attribute) {
    const Nesting::Level level(&nesting_);
    HEADWAY_RETURN_IF_ERROR(nesting_.Check(tokens_.line()));
    Target several;
    bool is_tuple = false;
    while (true) {
      if (tokens_.TakeOperator("(")) {
        HEADWAY_ASSIGN_OR_RETURN(Target inner, ParseTarget(with_attribute));
        HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
        several.several.push_back(std::move(inner));
      } else {
        HEADWAY_ASSIGN_OR_RETURN(Target name, ParseTargetName(with_attribute));
        several.several.push_back(std::move(name));
      }
      if (!tokens_.TakeOperator(",")) break;
      is_tuple = true;
      if (tokens_.current().kind != TokenKind::kName && !tokens_.IsOperator("(")) break;
      if (tokens_.IsName("in")) break;
    }
    if (is_tuple) return several;
    Target only = std::move(several.several[0]);
    return only;
  }

  absl::StatusOr<StatementPtr> ParseFor(int line) {
    For node;
    HEADWAY_ASSIGN_OR_RETURN(node.target, ParseTarget(/*with_attribute=*/false));
    HEADWAY_RETURN_IF_ERROR(tokens_.ExpectName("in"));
    HEADWAY_ASSIGN_OR_RETURN(node.iterable,
                             expressions_.ParseTuple(/*with_conditional=*/false, "recursive"));
    if (tokens_.TakeName("if")) {
      HEADWAY_ASSIGN_OR_RETURN(node.condition, expressions_.Parse());
    }
    node.recursive = tokens_.TakeName("recursive");
    HEADWAY_RETURN_IF_ERROR(BlockEnd());
    ++loops_;
    absl::StatusOr<Body> body = ParseBody({"else", "endfor"});
    --loops_;
    HEADWAY_ASSIGN_OR_RETURN(node.body, std::move(body));
    if (tokens_.IsName("else")) {
      HEADWAY_RETURN_IF_ERROR(EndTag("else"));
      HEADWAY_ASSIGN_OR_RETURN(node.otherwise, ParseBody({"endfor"}));
    }
    HEADWAY_RETURN_IF_ERROR(EndTag("endfor"));
    return Make(line, std::move(node));
  }

  absl::StatusOr<StatementPtr> ParseSet(int line) {
    Set node;
    HEADWAY_ASSIGN_OR_RETURN(node.target, ParseTarget(/*with_attribute=*/true));
    if (tokens_.TakeOperator("=")) {
      HEADWAY_ASSIGN_OR_RETURN(node.value, expressions_.ParseTuple());
      HEADWAY_RETURN_IF_ERROR(BlockEnd());
      return Make(line, std::move(node));
    }
    if (tokens_.TakeOperator("|")) {
      HEADWAY_ASSIGN_OR_RETURN(node.filters, expressions_.ParseFilters());
    }
    HEADWAY_RETURN_IF_ERROR(BlockEnd());
    HEADWAY_ASSIGN_OR_RETURN(node.body, ParseDetachedBody("endset"));
    HEADWAY_RETURN_IF_ERROR(EndTag("endset"));
    return Make(line, std::move(node));
  }

  // A body that is not part of the loop around it: break and continue do not reach out of it.
  absl::StatusOr<Body> ParseDetachedBody(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    absl::StatusOr<Body> body = ParseBody({end});
    loops_ = loops;
    return body;
  }

  // (a, b='default') of a macro.
  absl::Status ParseParameters(Macro* macro) {
    HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.IsOperator(")")) {
      HEADWAY_ASSIGN_OR_RETURN(Target parameter, ParseTargetName(/*with_attribute=*/false));
      macro->parameters.push_back(std::move(parameter.name));
      if (tokens_.TakeOperator("=")) {
        HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.Parse());
        macro->defaults.push_back(std::move(value));
      } else if (!macro->defaults.empty()) {
        return SyntaxError(tokens_.line(), "a parameter without a default after one with");
      }
      if (!tokens_.TakeOperator(",")) break;
    }
    return tokens_.ExpectOperator(")");
  }

  // Body and end tag of a macro; notes which special names it uses.
  absl::Status ParseMacroBody(Macro* macro, std::string_view end) {
    const auto outer = std::exchange(expressions_.special_names, {});
    HEADWAY_RETURN_IF_ERROR(BlockEnd());
    HEADWAY_ASSIGN_OR_RETURN(macro->body, ParseDetachedBody(end));
    macro->uses_varargs = expressions_.special_names.varargs;
    macro->uses_kwargs = expressions_.special_names.kwargs;
    expressions_.special_names.varargs |= outer.varargs;
    expressions_.special_names.kwargs |= outer.kwargs;
    return EndTag(end);
  }

  absl::StatusOr<StatementPtr> ParseMacro(int line) {
    Macro macro;
    HEADWAY_ASSIGN_OR_RETURN(Target name, ParseTargetName(/*with_attribute=*/false));
    macro.name = std::move(name.name);
    HEADWAY_RETURN_IF_ERROR(ParseParameters(&macro));
    HEADWAY_RETURN_IF_ERROR(ParseMacroBody(&macro, "endmacro"));
    return Make(line, std::move(macro));
  }

  absl::StatusOr<StatementPtr> ParseCall(int line) {
    CallBlock block;
    block.caller.name = "caller";
    if (tokens_.IsOperator("(")) HEADWAY_RETURN_IF_ERROR(ParseParameters(&block.caller));
    HEADWAY_ASSIGN_OR_RETURN(block.call, expressions_.ParsePostfix());
    const auto* postfix = std::get_if<Postfix>(&block.call->node);
    if (postfix == nullptr || !std::holds_alternative<CallStep>(postfix->steps.back())) {
      return SyntaxError(line, "expected a call");
    }
    HEADWAY_RETURN_IF_ERROR(ParseMacroBody(&block.caller, "endcall"));
    return Make(line, std::move(block));
  }

  absl::StatusOr<StatementPtr> ParseFilterBlock(int line) {
    FilterBlock block;
    HEADWAY_ASSIGN_OR_RETURN(block.filters, expressions_.ParseFilters());
    HEADWAY_RETURN_IF_ERROR(BlockEnd());
    HEADWAY_ASSIGN_OR_RETURN(block.body, ParseDetachedBody("endfilter"));
    HEADWAY_RETURN_IF_ERROR(EndTag("endfilter"));
    return Make(line, std::move(block));
  }

  absl::StatusOr<StatementPtr> ParseWith(int line) {
    With block;
    while (tokens_.current().kind != TokenKind::kBlockEnd) {
      HEADWAY_ASSIGN_OR_RETURN(Target target, ParseTargetName(/*with_attribute=*/false));
      HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator("="));
      HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.Parse());
      block.values.emplace_back(std::move(target), std::move(value));
      if (!tokens_.TakeOperator(",")) break;
    }
    HEADWAY_RETURN_IF_ERROR(BlockEnd());
    HEADWAY_ASSIGN_OR_RETURN(block.body, ParseBody({"endwith"}));
    HEADWAY_RETURN_IF_ERROR(EndTag("endwith"));
    return Make(line, std::move(block));
  }

  TokenStream tokens_;
  Nesting nesting_;
  ExpressionParser expressions_;
  int loops_ = 0;  // around the current place, in the same body
};

}  // namespace

absl::StatusOr<Body> ParseTemplate(std::string_view source, int max_depth) {
  HEADWAY_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens), max_depth).ParseAll();
}

}  // namespace headway::text::chat
