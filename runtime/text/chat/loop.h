#ifndef HEADWAY_RUNTIME_TEXT_CHAT_LOOP_H_
#define HEADWAY_RUNTIME_TEXT_CHAT_LOOP_H_

#include <memory>
#include <optional>
#include <vector>

#include "runtime/text/chat/ast.h"
#include "runtime/text/chat/evaluator.h"
#include "runtime/text/chat/value.h"

namespace headway::text::chat {

// The variable `loop` inside a loop.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // `depth`: 0 for a loop that is not inside a recursive call of itself.
  Loop(Evaluator* evaluator, const For* node, Scope* outer, std::shared_ptr<const List> items,
       int depth)
      : evaluator_(evaluator),
        node_(node),
        outer_(outer),
        items_(std::move(items)),
        depth_(depth) {}

  void MoveTo(size_t index) { index_ = index; }
  // The loop is over. Values that templates still hold refer to nothing any more, themselves
  // included.
  void End();

  std::string_view type_name() const override { return "loop"; }
  bool callable() const override { return node_ != nullptr && node_->recursive; }
  // loop(items): the loop's body once more, for other items.
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override;
  std::optional<Value> Attribute(std::string_view name) override;

 private:
  absl::StatusOr<Value> Cycle(const Arguments& arguments) const;
  absl::StatusOr<Value> Changed(Runtime& runtime, const Arguments& arguments);

  Evaluator* evaluator_;
  const For* node_;
  Scope* outer_;
  std::shared_ptr<const List> items_;
  int depth_;
  size_t index_ = 0;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace headway::text::chat

#endif  // HEADWAY_RUNTIME_TEXT_CHAT_LOOP_H_
