#include "runtime/text/chat/expression_parser.h"

#include <charconv>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway::text::chat {
namespace {

template <typename Node>
ExpressionPtr Make(int line, Node node) {
  return std::make_unique<const Expression>(Expression{line, std::move(node)});
}

std::optional<Comparison> ComparisonOf(const Token& token) {
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  if (token.text == "==") return Comparison::kEqual;
  if (token.text == "!=") return Comparison::kNotEqual;
  if (token.text == "<") return Comparison::kLess;
  if (token.text == "<=") return Comparison::kLessEqual;
  if (token.text == ">") return Comparison::kGreater;
  if (token.text == ">=") return Comparison::kGreaterEqual;
  return std::nullopt;
}

}  // namespace

absl::Status Nesting::Check(int line) const {
  if (open_ <= limit_) return absl::OkStatus();
  return SyntaxError(line, absl::StrCat("nested more than ", limit_, " deep"));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::Parse(bool with_conditional) {
  const Nesting::Level level(&nesting_);
  HEADWAY_RETURN_IF_ERROR(nesting_.Check(tokens_.line()));
  return with_conditional ? ParseConditional() : ParseOr();
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseTuple(bool with_conditional,
                                                           std::string_view end_name) {
  const int line = tokens_.line();
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr first, Parse(with_conditional));
  if (!tokens_.IsOperator(",")) return first;
  ListDisplay tuple{List::Kind::kTuple, {}};
  tuple.items.push_back(std::move(first));
  while (tokens_.TakeOperator(",")) {
    const Token& token = tokens_.current();
    if (token.kind == TokenKind::kBlockEnd || token.kind == TokenKind::kPrintEnd ||
        tokens_.IsOperator(")") || (!end_name.empty() && tokens_.IsName(end_name))) {
      break;
    }
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr item, Parse(with_conditional));
    tuple.items.push_back(std::move(item));
  }
  return Make(line, std::move(tuple));
}

ExpressionParser::Result ExpressionParser::ParseConditional() {
  const int line = tokens_.line();
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  for (int depth = 0; tokens_.TakeName("if"); ++depth) {
    if (depth > 0) return tokens_.Unexpected("'else' or the end of the expression");
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (tokens_.TakeName("else")) {
      HEADWAY_ASSIGN_OR_RETURN(otherwise, Parse());
    }
    value = Make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionParser::Result ExpressionParser::ParseOr() {
  const int line = tokens_.line();
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr first, ParseAnd());
  if (!tokens_.IsName("or")) return first;
  Logic logic{false, {}};
  logic.operands.push_back(std::move(first));
  while (tokens_.TakeName("or")) {
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseAnd());
    logic.operands.push_back(std::move(operand));
  }
  return Make(line, std::move(logic));
}

ExpressionParser::Result ExpressionParser::ParseAnd() {
  const int line = tokens_.line();
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr first, ParseNot());
  if (!tokens_.IsName("and")) return first;
  Logic logic{true, {}};
  logic.operands.push_back(std::move(first));
  while (tokens_.TakeName("and")) {
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
    logic.operands.push_back(std::move(operand));
  }
  return Make(line, std::move(logic));
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  const int line = tokens_.line();
  if (!tokens_.TakeName("not")) return ParseComparison();
  const Nesting::Level level(&nesting_);
  HEADWAY_RETURN_IF_ERROR(nesting_.Check(line));
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  return Make(line, Unary{Unary::Op::kNot, std::move(operand)});
}

ExpressionParser::Result ExpressionParser::ParseComparison() {
  const int line = tokens_.line();
  ComparisonChain chain;
  HEADWAY_ASSIGN_OR_RETURN(chain.first, ParseSum());
  while (true) {
    std::optional<Comparison> comparison = ComparisonOf(tokens_.current());
    if (comparison) {
      tokens_.Advance();
    } else if (tokens_.TakeName("in")) {
      comparison = Comparison::kIn;
    } else if (tokens_.IsName("not") && tokens_.next().kind == TokenKind::kName &&
               tokens_.next().text == "in") {
      tokens_.Advance();
      tokens_.Advance();
      comparison = Comparison::kNotIn;
    } else {
      break;
    }
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSum());
    chain.rest.emplace_back(*comparison, std::move(operand));
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return Make(line, std::move(chain));
}

ExpressionParser::Result ExpressionParser::ParseSum() {
  const int line = tokens_.line();
  ArithmeticChain chain;
  HEADWAY_ASSIGN_OR_RETURN(chain.first, ParseConcatenation());
  while (tokens_.IsOperator("+") || tokens_.IsOperator("-")) {
    const Arithmetic op = tokens_.IsOperator("+") ? Arithmetic::kAdd : Arithmetic::kSubtract;
    tokens_.Advance();
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseConcatenation());
    chain.rest.emplace_back(op, std::move(operand));
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return Make(line, std::move(chain));
}

ExpressionParser::Result ExpressionParser::ParseConcatenation() {
  const int line = tokens_.line();
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr first, ParseProduct());
  if (!tokens_.IsOperator("~")) return first;
  Concatenation concatenation;
  concatenation.parts.push_back(std::move(first));
  while (tokens_.TakeOperator("~")) {
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr part, ParseProduct());
    concatenation.parts.push_back(std::move(part));
  }
  return Make(line, std::move(concatenation));
}

ExpressionParser::Result ExpressionParser::ParseProduct() {
  const int line = tokens_.line();
  ArithmeticChain chain;
  HEADWAY_ASSIGN_OR_RETURN(chain.first, ParsePower());
  while (true) {
    Arithmetic op;
    if (tokens_.IsOperator("*")) {
      op = Arithmetic::kMultiply;
    } else if (tokens_.IsOperator("/")) {
      op = Arithmetic::kDivide;
    } else if (tokens_.IsOperator("//")) {
      op = Arithmetic::kFloorDivide;
    } else if (tokens_.IsOperator("%")) {
      op = Arithmetic::kModulo;
    } else {
      break;
    }
    tokens_.Advance();
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParsePower());
    chain.rest.emplace_back(op, std::move(operand));
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return Make(line, std::move(chain));
}

ExpressionParser::Result ExpressionParser::ParsePower() {
  const int line = tokens_.line();
  ArithmeticChain chain;
  HEADWAY_ASSIGN_OR_RETURN(chain.first, ParseUnary(/*with_filters=*/true));
  while (tokens_.TakeOperator("**")) {  // from left to right, unlike Python
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(/*with_filters=*/true));
    chain.rest.emplace_back(Arithmetic::kPower, std::move(operand));
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return Make(line, std::move(chain));
}

ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filters) {
  const int line = tokens_.line();
  ExpressionPtr node;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const auto op = tokens_.IsOperator("-") ? Unary::Op::kMinus : Unary::Op::kPlus;
    const Nesting::Level level(&nesting_);
    HEADWAY_RETURN_IF_ERROR(nesting_.Check(line));
    tokens_.Advance();
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(/*with_filters=*/false));
    node = Make(line, Unary{op, std::move(operand)});
  } else {
    HEADWAY_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  return ParseSteps(std::move(node), with_filters);
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePostfix() {
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr base, ParsePrimary());
  return ParseSteps(std::move(base), /*with_filters=*/false);
}

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  const Token& token = tokens_.current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kName: {
      std::string name = token.text;
      tokens_.Advance();
      if (name == "true" || name == "True") return Make(line, Constant{Value(true)});
      if (name == "false" || name == "False") return Make(line, Constant{Value(false)});
      if (name == "none" || name == "None") return Make(line, Constant{Value(None())});
      if (name == "varargs") special_names.varargs = true;
      if (name == "kwargs") special_names.kwargs = true;
      return Make(line, Name{std::move(name)});
    }
    case TokenKind::kString: {
      std::string text;
      while (tokens_.current().kind == TokenKind::kString) {  // neighbours join
        text += tokens_.current().text;
        tokens_.Advance();
      }
      return Make(line, Constant{Value::Literal(text)});
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return ParseNumber();
    default:
      if (tokens_.IsOperator("(")) return ParseParentheses();
      if (tokens_.IsOperator("[")) return ParseList();
      if (tokens_.IsOperator("{")) return ParseDict();
      return tokens_.Unexpected("an expression");
  }
}

ExpressionParser::Result ExpressionParser::ParseNumber() {
  const Token& token = tokens_.current();
  const int line = token.line;
  Value value;
  if (token.kind == TokenKind::kFloat) {
    double number = 0;
    const auto result =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
    if (result.ec != std::errc()) return SyntaxError(line, "a float that is out of range");
    value = Value(number);
  } else {
    Int number = 0;
    for (const char c : token.text) {
      if (__builtin_mul_overflow(number, Int{10}, &number) ||
          __builtin_add_overflow(number, Int{c - '0'}, &number)) {
        return SyntaxError(line, "an integer of more than 127 bits");
      }
    }
    value = Value(number);
  }
  tokens_.Advance();
  return Make(line, Constant{std::move(value)});
}

ExpressionParser::Result ExpressionParser::ParseParentheses() {
  const int line = tokens_.line();
  tokens_.Advance();
  if (tokens_.TakeOperator(")")) return Make(line, ListDisplay{List::Kind::kTuple, {}});
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTuple());
  HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
  return inner;
}

ExpressionParser::Result ExpressionParser::ParseList() {
  const int line = tokens_.line();
  tokens_.Advance();
  ListDisplay list{List::Kind::kList, {}};
  while (!tokens_.IsOperator("]")) {
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr item, Parse());
    list.items.push_back(std::move(item));
    if (!tokens_.TakeOperator(",")) break;
  }
  HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  return Make(line, std::move(list));
}

ExpressionParser::Result ExpressionParser::ParseDict() {
  const int line = tokens_.line();
  tokens_.Advance();
  DictDisplay dict;
  while (!tokens_.IsOperator("}")) {
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr key, Parse());
    HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr value, Parse());
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (!tokens_.TakeOperator(",")) break;
  }
  HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator("}"));
  return Make(line, std::move(dict));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseSteps(ExpressionPtr base, bool with_filters) {
  const int line = tokens_.line();
  Postfix postfix;
  postfix.base = std::move(base);
  bool after_filter = false;  // behind a filter only filters, tests and calls may follow
  while (true) {
    if (tokens_.IsOperator("(")) {
      HEADWAY_ASSIGN_OR_RETURN(CallArguments arguments, ParseArguments());
      postfix.steps.push_back(CallStep{std::move(arguments)});
    } else if (!after_filter && tokens_.TakeOperator(".")) {
      const Token token = tokens_.current();
      tokens_.Advance();
      if (token.kind == TokenKind::kName) {
        postfix.steps.push_back(AttributeStep{token.text});
      } else if (token.kind == TokenKind::kInteger && token.text.size() < 10) {
        postfix.steps.push_back(
            ItemStep{Make(token.line, Constant{Value(Int{std::stoi(token.text)})})});
      } else {
        return SyntaxError(token.line, "expected name or number");
      }
    } else if (!after_filter && tokens_.IsOperator("[")) {
      HEADWAY_RETURN_IF_ERROR(ParseSubscript(&postfix.steps));
    } else if (with_filters && tokens_.TakeOperator("|")) {
      HEADWAY_ASSIGN_OR_RETURN(FilterStep filter, ParseFilter());
      postfix.steps.push_back(std::move(filter));
      after_filter = true;
    } else if (with_filters && tokens_.TakeName("is")) {
      HEADWAY_ASSIGN_OR_RETURN(TestStep test, ParseTest());
      postfix.steps.push_back(std::move(test));
      after_filter = true;
    } else {
      break;
    }
  }
  if (postfix.steps.empty()) return std::move(postfix.base);
  return Make(line, std::move(postfix));
}

absl::Status ExpressionParser::ParseSubscript(std::vector<Step>* steps) {
  const int line = tokens_.line();
  tokens_.Advance();
  const auto at_end = [this] { return tokens_.IsOperator("]") || tokens_.IsOperator(","); };
  ExpressionPtr first;
  if (!tokens_.IsOperator(":")) {
    HEADWAY_ASSIGN_OR_RETURN(first, Parse());
    if (tokens_.IsOperator(",")) {  // x[1, 2]: the key is a tuple
      ListDisplay tuple{List::Kind::kTuple, {}};
      tuple.items.push_back(std::move(first));
      while (tokens_.TakeOperator(",") && !tokens_.IsOperator("]")) {
        HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr item, Parse());
        tuple.items.push_back(std::move(item));
      }
      first = Make(line, std::move(tuple));
    }
    if (tokens_.TakeOperator("]")) {
      steps->push_back(ItemStep{std::move(first)});
      return absl::OkStatus();
    }
  }
  HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
  SliceStep slice;
  slice.begin = std::move(first);
  if (!at_end() && !tokens_.IsOperator(":")) {
    HEADWAY_ASSIGN_OR_RETURN(slice.end, Parse());
  }
  if (tokens_.TakeOperator(":") && !at_end()) {
    HEADWAY_ASSIGN_OR_RETURN(slice.step, Parse());
  }
  HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  steps->push_back(std::move(slice));
  return absl::OkStatus();
}

absl::StatusOr<CallArguments> ExpressionParser::ParseArguments() {
  tokens_.Advance();
  CallArguments arguments;
  while (!tokens_.IsOperator(")")) {
    HEADWAY_RETURN_IF_ERROR(ParseArgument(&arguments));
    if (!tokens_.TakeOperator(",")) break;
  }
  HEADWAY_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
  return arguments;
}

absl::Status ExpressionParser::ParseArgument(CallArguments* arguments) {
  const int line = tokens_.line();
  if (tokens_.TakeOperator("**")) {
    if (arguments->double_star != nullptr) return SyntaxError(line, "two ** arguments");
    HEADWAY_ASSIGN_OR_RETURN(arguments->double_star, Parse());
    return absl::OkStatus();
  }
  if (arguments->double_star != nullptr) return SyntaxError(line, "an argument after **");
  if (tokens_.TakeOperator("*")) {
    if (arguments->star != nullptr) return SyntaxError(line, "two * arguments");
    HEADWAY_ASSIGN_OR_RETURN(arguments->star, Parse());
    return absl::OkStatus();
  }
  if (tokens_.current().kind == TokenKind::kName && TokenStream::IsOperator(tokens_.next(), "=")) {
    std::string name = tokens_.current().text;
    tokens_.Advance();
    tokens_.Advance();
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr value, Parse());
    arguments->named.emplace_back(std::move(name), std::move(value));
    return absl::OkStatus();
  }
  if (!arguments->named.empty() || arguments->star != nullptr) {
    return SyntaxError(line, "a positional argument after a named one");
  }
  HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr value, Parse());
  arguments->positional.push_back(std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExpressionParser::ParseDottedName() {
  std::string name = tokens_.current().text;
  HEADWAY_RETURN_IF_ERROR(tokens_.ExpectKind(TokenKind::kName, "a name"));
  while (tokens_.IsOperator(".") && tokens_.next().kind == TokenKind::kName) {
    tokens_.Advance();
    absl::StrAppend(&name, ".", tokens_.current().text);
    tokens_.Advance();
  }
  return name;
}

absl::StatusOr<FilterStep> ExpressionParser::ParseFilter() {
  FilterStep filter;
  HEADWAY_ASSIGN_OR_RETURN(filter.name, ParseDottedName());
  if (tokens_.IsOperator("(")) {
    HEADWAY_ASSIGN_OR_RETURN(filter.arguments, ParseArguments());
  }
  return filter;
}

absl::StatusOr<std::vector<FilterStep>> ExpressionParser::ParseFilters() {
  std::vector<FilterStep> filters;
  do {
    HEADWAY_ASSIGN_OR_RETURN(FilterStep filter, ParseFilter());
    filters.push_back(std::move(filter));
  } while (tokens_.TakeOperator("|"));
  return filters;
}

absl::StatusOr<TestStep> ExpressionParser::ParseTest() {
  TestStep test;
  test.negated = tokens_.TakeName("not");
  HEADWAY_ASSIGN_OR_RETURN(test.name, ParseDottedName());
  if (tokens_.IsOperator("(")) {
    HEADWAY_ASSIGN_OR_RETURN(test.arguments, ParseArguments());
    return test;
  }
  // An argument without parentheses: `is divisibleby 3`.
  const Token& token = tokens_.current();
  const bool is_value = token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
                        token.kind == TokenKind::kFloat || tokens_.IsOperator("[") ||
                        tokens_.IsOperator("{");
  const bool is_name = token.kind == TokenKind::kName && token.text != "else" &&
                       token.text != "or" && token.text != "and" && token.text != "not" &&
                       token.text != "if" && token.text != "in" && token.text != "recursive";
  if (tokens_.IsName("is"))
    return SyntaxError(token.line, "You cannot chain multiple tests with is");
  if (is_value || is_name) {
    HEADWAY_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePostfix());
    test.arguments.positional.push_back(std::move(argument));
  }
  return test;
}

}  // namespace headway::text::chat
