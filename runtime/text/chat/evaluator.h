#ifndef HEADWAY_RUNTIME_TEXT_CHAT_EVALUATOR_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_EVALUATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/text/chat/ast.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// Variables of one block. Looking up goes outwards; setting stays inside.
struct Scope {
  Scope* parent = nullptr;
  absl::flat_hash_map<std::string, Value> variables;
  Charge charge;
  bool captured = false;  // a macro that was defined here may outlive the block
};

// Runs one template once. Errors come with the line of the statement where they arose.
class Evaluator {
 public:
  // `runtime` outlives this and all values made here.
  explicit Evaluator(Runtime& runtime) : runtime_(runtime), scope_(&globals_) {}

  absl::Status SetGlobal(const std::string& name, Value value);
  // What the template prints. Aborted with the template's own words when it calls raise_exception;
  // InvalidArgument for what it cannot do; ResourceExhausted at a limit.
  absl::StatusOr<MarkedText> Run(const Body& body);

  // For the objects that templates call.
  absl::StatusOr<Value> CallMacro(const Macro& macro, Scope* definition,
                                  const Arguments& arguments);
  absl::StatusOr<Value> CallLoop(const For& loop, Scope* outer, int depth, const Value& items);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeGuard;
  class OutputGuard;
  class Frame;

  absl::StatusOr<Value> Evaluate(const Expression& expression);
  absl::StatusOr<Value> EvaluateNode(const Constant& node);
  absl::StatusOr<Value> EvaluateNode(const Name& node);
  absl::StatusOr<Value> EvaluateNode(const ListDisplay& node);
  absl::StatusOr<Value> EvaluateNode(const DictDisplay& node);
  absl::StatusOr<Value> EvaluateNode(const Unary& node);
  absl::StatusOr<Value> EvaluateNode(const ArithmeticChain& node);
  absl::StatusOr<Value> EvaluateNode(const Concatenation& node);
  absl::StatusOr<Value> EvaluateNode(const ComparisonChain& node);
  absl::StatusOr<Value> EvaluateNode(const Logic& node);
  absl::StatusOr<Value> EvaluateNode(const Conditional& node);
  absl::StatusOr<Value> EvaluateNode(const Postfix& node);
  // `caller`: what a call block adds to the arguments of the last call; may be null.
  absl::StatusOr<Value> EvaluatePostfix(const Postfix& node, const Value* caller);
  absl::StatusOr<Value> Take(const Value& value, const Step& step, const Value* caller);
  absl::StatusOr<Value> Call(const Value& callee, const Arguments& arguments);
  absl::StatusOr<Value> ApplyFilter(const Value& value, const FilterStep& filter);
  absl::StatusOr<Arguments> EvaluateArguments(const CallArguments& arguments);
  absl::StatusOr<bool> Holds(Comparison comparison, const Value& left, const Value& right);

  absl::StatusOr<Flow> Execute(const Body& body);
  absl::StatusOr<Flow> ExecuteStatement(const Statement& statement);
  absl::StatusOr<Flow> ExecuteNode(const Text& node);
  absl::StatusOr<Flow> ExecuteNode(const Print& node);
  absl::StatusOr<Flow> ExecuteNode(const If& node);
  absl::StatusOr<Flow> ExecuteNode(const For& node);
  absl::StatusOr<Flow> ExecuteNode(const Set& node);
  absl::StatusOr<Flow> ExecuteNode(const Macro& node);
  absl::StatusOr<Flow> ExecuteNode(const CallBlock& node);
  absl::StatusOr<Flow> ExecuteNode(const FilterBlock& node);
  absl::StatusOr<Flow> ExecuteNode(const With& node);
  absl::StatusOr<Flow> ExecuteNode(const Break& node);
  absl::StatusOr<Flow> ExecuteNode(const Continue& node);

  absl::Status RunLoop(const For& node, const Value& iterable, int depth);
  absl::StatusOr<std::shared_ptr<const List>> LoopItems(const For& node, const Value& iterable);
  // What `body` prints, in a scope of its own.
  absl::StatusOr<Value> Capture(const Body& body);
  absl::Status Emit(const Value& value);
  absl::Status Assign(const Target& target, const Value& value);
  absl::Status SetVariable(const std::string& name, Value value);
  absl::Status BindParameters(const Macro& macro, const Arguments& arguments);
  const Value* Lookup(const std::string& name) const;
  Value MakeMacro(const Macro& macro);

  Runtime& runtime_;
  Scope globals_;
  Scope* scope_;
  TextBuilder* output_ = nullptr;
  int frames_ = 0;        // nested calls of Evaluate and Execute
  int calls_ = 0;         // nested macros and recursive loops
  bool located_ = false;  // the error that is on its way out has its line
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_EVALUATOR_H_
