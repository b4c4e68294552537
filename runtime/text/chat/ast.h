#ifndef HEADWAY_RUNTIME_TEXT_CHAT_AST_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// A parsed template. The parser bounds how deeply nodes nest; what may be long without being deep
// (a + b + c, x.a.b|f|g) is a list in one node, so that depth here is depth in the source.

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star;         // *list; may be null
  ExpressionPtr double_star;  // **dict; may be null
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  List::Kind kind;
  std::vector<ExpressionPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Unary {
  enum class Op { kNot, kMinus, kPlus };
  Op op;
  ExpressionPtr operand;
};
// first op operand op operand ..., from left to right.
struct ArithmeticChain {
  ExpressionPtr first;
  std::vector<std::pair<Arithmetic, ExpressionPtr>> rest;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
struct ComparisonChain {  // a < b < c: each holds
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Logic {  // a and b and c, or with or
  bool is_and;
  std::vector<ExpressionPtr> operands;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  // otherwise may be null
};

struct AttributeStep {
  std::string name;
};
struct ItemStep {
  ExpressionPtr key;
};
struct SliceStep {
  ExpressionPtr begin, end, step;  // each may be null
};
struct CallStep {
  CallArguments arguments;
};
struct FilterStep {
  std::string name;
  CallArguments arguments;
};
struct TestStep {
  std::string name;
  bool negated;
  CallArguments arguments;
};
using Step = std::variant<AttributeStep, ItemStep, SliceStep, CallStep, FilterStep, TestStep>;
struct Postfix {  // base.name[key](arguments)|filter is test
  ExpressionPtr base;
  std::vector<Step> steps;
};

struct Expression {
  int line;
  std::variant<Constant, Name, ListDisplay, DictDisplay, Unary, ArithmeticChain, Concatenation,
               ComparisonChain, Logic, Conditional, Postfix>
      node;
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

// Where a value goes: a name, an attribute of a namespace, or several names.
struct Target {
  std::string name;
  std::string attribute;        // of `name`; empty: the name itself
  std::vector<Target> several;  // not empty: a value is taken apart
};

struct Text {
  Value value;
};
struct Print {
  ExpressionPtr expression;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // may be null
  bool recursive = false;
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;  // null: the printed `body`, through `filters`
  Body body;
  std::vector<FilterStep> filters;
};
struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  bool uses_varargs = false, uses_kwargs = false;
};
struct CallBlock {
  ExpressionPtr call;  // a Postfix that ends in a CallStep
  Macro caller;
};
struct FilterBlock {
  std::vector<FilterStep> filters;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Text, Print, If, For, Set, Macro, CallBlock, FilterBlock, With, Break, Continue>
      node;
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_AST_H_
