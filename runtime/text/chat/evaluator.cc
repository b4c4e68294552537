#include "runtime/text/chat/evaluator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/strings.h"
#include "runtime/text/chat/attributes.h"
#include "runtime/text/chat/filters.h"
#include "runtime/text/chat/functions.h"
#include "runtime/text/chat/lexer.h"
#include "runtime/text/chat/loop.h"
#include "runtime/text/chat/operators.h"
#include "runtime/text/chat/printing.h"

namespace headway::text::chat {
namespace {

// Bounds the stack of the process: a frame of the interpreter takes a few hundred bytes of it, some
// thousand under a sanitizer.
constexpr int kMaxFrames = 1000;

class MacroObject : public Object {
 public:
  MacroObject(Evaluator* evaluator, const Macro* macro, Scope* definition)
      : evaluator_(evaluator), macro_(macro), definition_(definition) {}
  std::string_view type_name() const override { return "macro"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    return evaluator_->CallMacro(*macro_, definition_, arguments);
  }
  std::optional<Value> Attribute(std::string_view name) override {
    if (name == "name") return Value::Literal(macro_->name);
    return std::nullopt;
  }

 private:
  Evaluator* evaluator_;
  const Macro* macro_;
  Scope* definition_;
};

}  // namespace

// A new scope inside the current one (or inside `parent`), as long as this lives.
class Evaluator::ScopeGuard {
 public:
  ScopeGuard(Evaluator* evaluator, Scope* parent)
      : evaluator_(*evaluator), outer_(evaluator->scope_), scope_(std::make_unique<Scope>()) {
    scope_->parent = parent;
    evaluator_.scope_ = scope_.get();
  }
  explicit ScopeGuard(Evaluator* evaluator) : ScopeGuard(evaluator, evaluator->scope_) {}
  ~ScopeGuard() {
    evaluator_.scope_ = outer_;
    if (scope_->captured) evaluator_.runtime_.Keep(std::move(scope_));
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Evaluator& evaluator_;
  Scope* outer_;
  std::unique_ptr<Scope> scope_;
};

// Output goes to `builder` as long as this lives.
class Evaluator::OutputGuard {
 public:
  OutputGuard(Evaluator* evaluator, TextBuilder* builder)
      : evaluator_(*evaluator), outer_(std::exchange(evaluator->output_, builder)) {}
  ~OutputGuard() { evaluator_.output_ = outer_; }
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

 private:
  Evaluator& evaluator_;
  TextBuilder* outer_;
};

// One more nested evaluation, as long as this lives.
class Evaluator::Frame {
 public:
  explicit Frame(int* count) : count_(*count) { ++count_; }
  ~Frame() { --count_; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  absl::Status Check(int limit, std::string_view what) const {
    if (count_ <= limit) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the chat template nests more than ", limit, " ", ToAbsl(what)));
  }

 private:
  int& count_;
};

absl::Status Evaluator::SetGlobal(const std::string& name, Value value) {
  globals_.variables[name] = std::move(value);
  return globals_.charge.Grow(&runtime_.budget(), name.size() + 2 * sizeof(Value));
}

absl::StatusOr<MarkedText> Evaluator::Run(const Body& body) {
  TextBuilder builder(runtime_);
  const OutputGuard output(this, &builder);
  const ScopeGuard scope(this);
  HEADWAY_RETURN_IF_ERROR(Execute(body).status());
  return builder.TakeText();
}

// Expressions.

absl::StatusOr<Value> Evaluator::Evaluate(const Expression& expression) {
  const Frame frame(&frames_);
  HEADWAY_RETURN_IF_ERROR(frame.Check(kMaxFrames, "expressions"));
  HEADWAY_RETURN_IF_ERROR(runtime_.budget().Step());
  return std::visit([this](const auto& node) { return EvaluateNode(node); }, expression.node);
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const Constant& node) { return node.value; }

const Value* Evaluator::Lookup(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto it = scope->variables.find(name);
    if (it != scope->variables.end()) return &it->second;
  }
  return nullptr;
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const Name& node) {
  if (const Value* value = Lookup(node.name)) return *value;
  return Value::MakeUndefined(absl::StrCat("'", node.name, "' is undefined"));
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const ListDisplay& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) {
    HEADWAY_ASSIGN_OR_RETURN(Value value, Evaluate(*item));
    items.push_back(std::move(value));
  }
  return runtime_.MakeList(std::move(items), node.kind);
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const DictDisplay& node) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key_node, value_node] : node.entries) {
    HEADWAY_ASSIGN_OR_RETURN(Value key, Evaluate(*key_node));
    HEADWAY_ASSIGN_OR_RETURN(Value value, Evaluate(*value_node));
    const std::string type(key.type_name());
    if (!dict->Set(std::move(key), std::move(value))) {
      return TemplateError(absl::StrCat("unhashable type: '", type, "'"));
    }
  }
  return runtime_.MakeDict(std::move(dict));
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const Unary& node) {
  HEADWAY_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operand));
  switch (node.op) {
    case Unary::Op::kNot:
      return Value(!value.Truth());
    case Unary::Op::kMinus:
      return Negate(value);
    case Unary::Op::kPlus:
      if (value.is_number()) return value;
      return TemplateError(
          absl::StrCat("bad operand type for unary +: '", ToAbsl(value.type_name()), "'"));
  }
  return value;
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const ArithmeticChain& node) {
  HEADWAY_ASSIGN_OR_RETURN(Value value, Evaluate(*node.first));
  for (const auto& [op, operand] : node.rest) {
    HEADWAY_ASSIGN_OR_RETURN(const Value right, Evaluate(*operand));
    HEADWAY_ASSIGN_OR_RETURN(value, Apply(runtime_, op, value, right));
  }
  return value;
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const Concatenation& node) {
  TextBuilder builder(runtime_);
  for (const ExpressionPtr& part : node.parts) {
    HEADWAY_ASSIGN_OR_RETURN(const Value value, Evaluate(*part));
    AppendStr(value, &builder);
  }
  return builder.Finish();
}

absl::StatusOr<bool> Evaluator::Holds(Comparison comparison, const Value& left,
                                      const Value& right) {
  switch (comparison) {
    case Comparison::kEqual:
      return Equal(runtime_, left, right);
    case Comparison::kNotEqual: {
      HEADWAY_ASSIGN_OR_RETURN(const bool equal, Equal(runtime_, left, right));
      return !equal;
    }
    case Comparison::kIn:
      return Contains(runtime_, right, left);
    case Comparison::kNotIn: {
      HEADWAY_ASSIGN_OR_RETURN(const bool contains, Contains(runtime_, right, left));
      return !contains;
    }
    default:
      break;
  }
  HEADWAY_ASSIGN_OR_RETURN(const int order, Compare(runtime_, left, right));
  switch (comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const ComparisonChain& node) {
  HEADWAY_ASSIGN_OR_RETURN(Value left, Evaluate(*node.first));
  for (const auto& [comparison, operand] : node.rest) {
    HEADWAY_ASSIGN_OR_RETURN(Value right, Evaluate(*operand));
    HEADWAY_ASSIGN_OR_RETURN(const bool holds, Holds(comparison, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const Logic& node) {
  Value value;
  for (const ExpressionPtr& operand : node.operands) {
    HEADWAY_ASSIGN_OR_RETURN(value, Evaluate(*operand));
    if (value.Truth() != node.is_and) break;
  }
  return value;
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const Conditional& node) {
  HEADWAY_ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.condition));
  if (condition.Truth()) return Evaluate(*node.then);
  if (node.otherwise != nullptr) return Evaluate(*node.otherwise);
  return Value::MakeUndefined("the inline if-expression evaluated to false and has no else");
}

absl::StatusOr<Value> Evaluator::EvaluateNode(const Postfix& node) {
  return EvaluatePostfix(node, nullptr);
}

absl::StatusOr<Value> Evaluator::EvaluatePostfix(const Postfix& node, const Value* caller) {
  HEADWAY_ASSIGN_OR_RETURN(Value value, Evaluate(*node.base));
  for (const Step& step : node.steps) {
    HEADWAY_RETURN_IF_ERROR(runtime_.budget().Step());
    HEADWAY_ASSIGN_OR_RETURN(value,
                             Take(value, step, &step == &node.steps.back() ? caller : nullptr));
  }
  return value;
}

absl::StatusOr<Value> Evaluator::Take(const Value& value, const Step& step, const Value* caller) {
  if (const auto* attribute = std::get_if<AttributeStep>(&step)) {
    return GetAttribute(runtime_, value, attribute->name);
  }
  if (const auto* item = std::get_if<ItemStep>(&step)) {
    HEADWAY_ASSIGN_OR_RETURN(const Value key, Evaluate(*item->key));
    return GetItem(runtime_, value, key);
  }
  if (const auto* slice = std::get_if<SliceStep>(&step)) {
    std::optional<Value> bounds[3];
    const ExpressionPtr* nodes[3] = {&slice->begin, &slice->end, &slice->step};
    for (int i = 0; i < 3; ++i) {
      if (*nodes[i] == nullptr) continue;
      HEADWAY_ASSIGN_OR_RETURN(bounds[i], Evaluate(**nodes[i]));
    }
    return GetSlice(runtime_, value, bounds[0], bounds[1], bounds[2]);
  }
  if (const auto* filter = std::get_if<FilterStep>(&step)) return ApplyFilter(value, *filter);
  if (const auto* test = std::get_if<TestStep>(&step)) {
    HEADWAY_ASSIGN_OR_RETURN(const Test function, FindTest(test->name));
    HEADWAY_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(test->arguments));
    HEADWAY_ASSIGN_OR_RETURN(const bool holds, function(runtime_, value, arguments));
    return Value(holds != test->negated);
  }
  HEADWAY_ASSIGN_OR_RETURN(Arguments arguments,
                           EvaluateArguments(std::get<CallStep>(step).arguments));
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return Call(value, arguments);
}

absl::StatusOr<Value> Evaluator::Call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) return UndefinedError(callee);
  if (Object* object = callee.object()) return object->Call(runtime_, arguments);
  return TemplateError(absl::StrCat("'", ToAbsl(callee.type_name()), "' object is not callable"));
}

absl::StatusOr<Value> Evaluator::ApplyFilter(const Value& value, const FilterStep& filter) {
  HEADWAY_ASSIGN_OR_RETURN(const Filter function, FindFilter(filter.name));
  HEADWAY_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(filter.arguments));
  return function(runtime_, value, arguments);
}

absl::StatusOr<Arguments> Evaluator::EvaluateArguments(const CallArguments& arguments) {
  Arguments result;
  for (const ExpressionPtr& argument : arguments.positional) {
    HEADWAY_ASSIGN_OR_RETURN(Value value, Evaluate(*argument));
    result.positional.push_back(std::move(value));
  }
  if (arguments.star != nullptr) {
    HEADWAY_ASSIGN_OR_RETURN(const Value star, Evaluate(*arguments.star));
    HEADWAY_ASSIGN_OR_RETURN(const auto list, Iterate(runtime_, star));
    HEADWAY_RETURN_IF_ERROR(runtime_.budget().Step(list->items.size() * sizeof(Value)));
    result.positional.insert(result.positional.end(), list->items.begin(), list->items.end());
  }
  for (const auto& [name, argument] : arguments.named) {
    HEADWAY_ASSIGN_OR_RETURN(Value value, Evaluate(*argument));
    result.named.emplace_back(name, std::move(value));
  }
  if (arguments.double_star != nullptr) {
    HEADWAY_ASSIGN_OR_RETURN(const Value mapping, Evaluate(*arguments.double_star));
    if (mapping.dict() == nullptr) return TemplateError("** needs a mapping");
    for (const auto& [key, value] : mapping.dict()->entries) {
      if (!key.is_string()) return TemplateError("keywords must be strings");
      result.named.emplace_back(key.string()->bytes(), value);
    }
  }
  return result;
}

// Statements.

absl::StatusOr<Evaluator::Flow> Evaluator::Execute(const Body& body) {
  const Frame frame(&frames_);
  HEADWAY_RETURN_IF_ERROR(frame.Check(kMaxFrames, "blocks"));
  for (const auto& statement : body) {
    absl::StatusOr<Flow> flow = ExecuteStatement(*statement);
    if (!flow.ok()) {
      if (located_ || absl::IsAborted(flow.status())) return flow;
      located_ = true;
      return Annotate(flow.status(), absl::StrCat("chat template, line ", statement->line));
    }
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteStatement(const Statement& statement) {
  HEADWAY_RETURN_IF_ERROR(runtime_.budget().Step());
  return std::visit([this](const auto& node) { return ExecuteNode(node); }, statement.node);
}

absl::Status Evaluator::Emit(const Value& value) {
  AppendStr(value, output_);
  HEADWAY_RETURN_IF_ERROR(output_->Check());
  const size_t limit = runtime_.limits().output_bytes;
  if (output_->size() <= limit) return runtime_.budget().Step();
  return absl::ResourceExhaustedError(
      absl::StrCat("the chat template prints more than ", limit, " bytes"));
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const Text& node) {
  HEADWAY_RETURN_IF_ERROR(Emit(node.value));
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const Print& node) {
  HEADWAY_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.expression));
  HEADWAY_RETURN_IF_ERROR(Emit(value));
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const If& node) {
  for (const auto& [condition, body] : node.branches) {
    HEADWAY_ASSIGN_OR_RETURN(const Value value, Evaluate(*condition));
    if (value.Truth()) return Execute(body);
  }
  return Execute(node.otherwise);
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const For& node) {
  HEADWAY_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*node.iterable));
  HEADWAY_RETURN_IF_ERROR(RunLoop(node, iterable, 0));
  return Flow::kNext;
}

absl::StatusOr<std::shared_ptr<const List>> Evaluator::LoopItems(const For& node,
                                                                 const Value& iterable) {
  HEADWAY_ASSIGN_OR_RETURN(std::shared_ptr<const List> items, Iterate(runtime_, iterable));
  if (node.condition == nullptr) return items;
  std::vector<Value> wanted;
  for (const Value& item : items->items) {
    const ScopeGuard scope(this);
    HEADWAY_RETURN_IF_ERROR(Assign(node.target, item));
    HEADWAY_ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.condition));
    if (condition.Truth()) wanted.push_back(item);
  }
  HEADWAY_ASSIGN_OR_RETURN(const Value list, runtime_.MakeList(std::move(wanted)));
  return list.shared_list();
}

absl::Status Evaluator::RunLoop(const For& node, const Value& iterable, int depth) {
  HEADWAY_ASSIGN_OR_RETURN(const std::shared_ptr<const List> items, LoopItems(node, iterable));
  if (items->items.empty()) {
    const ScopeGuard scope(this);
    return Execute(node.otherwise).status();
  }
  const auto loop = std::make_shared<Loop>(this, &node, scope_, items, depth);
  absl::Status status;
  for (size_t i = 0; i < items->items.size() && status.ok(); ++i) {
    loop->MoveTo(i);
    const ScopeGuard scope(this);
    status = runtime_.budget().Step();
    if (status.ok()) status = SetVariable("loop", Value(std::shared_ptr<Object>(loop)));
    if (status.ok()) status = Assign(node.target, items->items[i]);
    if (!status.ok()) break;
    const absl::StatusOr<Flow> flow = Execute(node.body);
    status = flow.status();
    if (flow.ok() && *flow == Flow::kBreak) break;
  }
  loop->End();
  return status;
}

absl::StatusOr<Value> Evaluator::CallLoop(const For& loop, Scope* outer, int depth,
                                          const Value& items) {
  const Frame call(&calls_);
  HEADWAY_RETURN_IF_ERROR(call.Check(runtime_.limits().calls, "calls"));
  TextBuilder builder(runtime_);
  const OutputGuard output(this, &builder);
  const ScopeGuard scope(this, outer);
  HEADWAY_RETURN_IF_ERROR(RunLoop(loop, items, depth));
  return builder.Finish();
}

absl::StatusOr<Value> Evaluator::Capture(const Body& body) {
  TextBuilder builder(runtime_);
  const OutputGuard output(this, &builder);
  const ScopeGuard scope(this);
  HEADWAY_RETURN_IF_ERROR(Execute(body).status());
  return builder.Finish();
}

absl::Status Evaluator::SetVariable(const std::string& name, Value value) {
  const auto [it, is_new] = scope_->variables.try_emplace(name);
  it->second = std::move(value);
  if (!is_new) return absl::OkStatus();
  return scope_->charge.Grow(&runtime_.budget(), name.size() + 2 * sizeof(Value));
}

absl::Status Evaluator::Assign(const Target& target, const Value& value) {
  if (!target.several.empty()) {
    HEADWAY_ASSIGN_OR_RETURN(const auto items, Iterate(runtime_, value));
    if (items->items.size() != target.several.size()) {
      return TemplateError(
          absl::StrCat(items->items.size() < target.several.size() ? "not enough" : "too many",
                       " values to unpack (expected ", target.several.size(), ", got ",
                       items->items.size(), ")"));
    }
    for (size_t i = 0; i < items->items.size(); ++i) {
      HEADWAY_RETURN_IF_ERROR(Assign(target.several[i], items->items[i]));
    }
    return absl::OkStatus();
  }
  if (target.attribute.empty()) return SetVariable(target.name, value);
  const Value* object = Lookup(target.name);
  auto* space = object == nullptr ? nullptr : dynamic_cast<Namespace*>(object->object());
  if (space == nullptr) return TemplateError("cannot assign attribute on non-namespace object");
  return space->Set(runtime_, target.attribute, value);
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const Set& node) {
  Value value;
  if (node.value != nullptr) {
    HEADWAY_ASSIGN_OR_RETURN(value, Evaluate(*node.value));
  } else {
    HEADWAY_ASSIGN_OR_RETURN(value, Capture(node.body));
    for (const FilterStep& filter : node.filters) {
      HEADWAY_ASSIGN_OR_RETURN(value, ApplyFilter(value, filter));
    }
  }
  HEADWAY_RETURN_IF_ERROR(Assign(node.target, value));
  return Flow::kNext;
}

Value Evaluator::MakeMacro(const Macro& macro) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) scope->captured = true;
  return Value(std::shared_ptr<Object>(std::make_shared<MacroObject>(this, &macro, scope_)));
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const Macro& node) {
  HEADWAY_RETURN_IF_ERROR(SetVariable(node.name, MakeMacro(node)));
  return Flow::kNext;
}

absl::Status Evaluator::BindParameters(const Macro& macro, const Arguments& arguments) {
  const size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.uses_varargs) {
    return TemplateError(
        absl::StrCat("macro '", macro.name, "' takes not more than ", count, " argument(s)"));
  }
  std::vector<const Value*> given(count, nullptr);
  for (size_t i = 0; i < std::min(count, arguments.positional.size()); ++i) {
    given[i] = &arguments.positional[i];
  }
  auto kwargs = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(macro.parameters.begin(), macro.parameters.end(), name);
    if (it != macro.parameters.end()) {
      const Value*& parameter = given[it - macro.parameters.begin()];
      if (parameter != nullptr) {
        return TemplateError(
            absl::StrCat("macro '", macro.name, "' got multiple values for argument '", name, "'"));
      }
      parameter = &value;
    } else if (name == "caller") {
      HEADWAY_RETURN_IF_ERROR(SetVariable(name, value));
    } else if (macro.uses_kwargs) {
      HEADWAY_ASSIGN_OR_RETURN(Value key, runtime_.MakeString(MarkedText(name, /*trusted=*/false)));
      kwargs->Set(std::move(key), value);
    } else {
      return TemplateError(
          absl::StrCat("macro '", macro.name, "' takes no keyword argument '", name, "'"));
    }
  }
  const size_t first_default = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    Value value;
    if (given[i] != nullptr) {
      value = *given[i];
    } else if (i >= first_default) {
      HEADWAY_ASSIGN_OR_RETURN(value, Evaluate(*macro.defaults[i - first_default]));
    } else {
      value = Value::MakeUndefined(
          absl::StrCat("parameter '", macro.parameters[i], "' was not provided"));
    }
    HEADWAY_RETURN_IF_ERROR(SetVariable(macro.parameters[i], std::move(value)));
  }
  if (macro.uses_varargs) {
    const auto rest = arguments.positional.begin() + std::min(count, arguments.positional.size());
    HEADWAY_ASSIGN_OR_RETURN(Value varargs,
                             runtime_.MakeList(std::vector<Value>(rest, arguments.positional.end()),
                                               List::Kind::kTuple));
    HEADWAY_RETURN_IF_ERROR(SetVariable("varargs", std::move(varargs)));
  }
  if (macro.uses_kwargs) {
    HEADWAY_ASSIGN_OR_RETURN(Value value, runtime_.MakeDict(std::move(kwargs)));
    HEADWAY_RETURN_IF_ERROR(SetVariable("kwargs", std::move(value)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Evaluator::CallMacro(const Macro& macro, Scope* definition,
                                           const Arguments& arguments) {
  const Frame call(&calls_);
  HEADWAY_RETURN_IF_ERROR(call.Check(runtime_.limits().calls, "calls"));
  TextBuilder builder(runtime_);
  const OutputGuard output(this, &builder);
  const ScopeGuard scope(this, definition);
  HEADWAY_RETURN_IF_ERROR(BindParameters(macro, arguments));
  HEADWAY_RETURN_IF_ERROR(Execute(macro.body).status());
  return builder.Finish();
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const CallBlock& node) {
  const Value caller = MakeMacro(node.caller);
  HEADWAY_ASSIGN_OR_RETURN(const Value value,
                           EvaluatePostfix(std::get<Postfix>(node.call->node), &caller));
  HEADWAY_RETURN_IF_ERROR(Emit(value));
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const FilterBlock& node) {
  HEADWAY_ASSIGN_OR_RETURN(Value value, Capture(node.body));
  for (const FilterStep& filter : node.filters) {
    HEADWAY_ASSIGN_OR_RETURN(value, ApplyFilter(value, filter));
  }
  HEADWAY_RETURN_IF_ERROR(Emit(value));
  return Flow::kNext;
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const With& node) {
  // The values are those of the scope outside.
  std::vector<Value> values;
  for (const auto& [target, expression] : node.values) {
    HEADWAY_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(this);
  for (size_t i = 0; i < values.size(); ++i) {
    HEADWAY_RETURN_IF_ERROR(Assign(node.values[i].first, values[i]));
  }
  return Execute(node.body);
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const Break& node) { return Flow::kBreak; }

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteNode(const Continue& node) {
  return Flow::kContinue;
}

}  // namespace headway::text::chat
