#ifndef HEADWAY_RUNTIME_ROUTER_INFERENCE_H_
#define HEADWAY_RUNTIME_ROUTER_INFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/request/request.h"
#include "runtime/request/sampling_params.h"
#include "runtime/text/chat/chat_template.h"

namespace headway {

// What a router is asked and answers, in its own words; proto/headway/v1/inference.proto says what
// the fields mean. Tokens and traces stay as nodes send them.

using Prompt = std::variant<std::string,                      // plain text
                            std::vector<int32_t>,             // token ids
                            std::vector<text::ChatMessage>>;  // messages for the chat template

struct GenerateInput {
  Prompt prompt;
  std::optional<uint64_t> seed;
  std::optional<int32_t> max_tokens;
  // The rest. The router fills in what is above, and the id where it is empty.
  GenerateRequest request;
};

// A piece of the answer.
struct GenerateDelta {
  std::string text;
  std::vector<v1::Token> tokens;
};

struct GenerateTimings {
  int64_t tokenize_us = 0;
  int64_t reserve_us = 0;
  int64_t queue_us = 0;
  int64_t prefill_us = 0;
  int64_t transfer_us = 0;
  int64_t first_token_us = 0;
  int64_t total_us = 0;
  int64_t kv_bytes = 0;
  std::string prefill_node;
  std::string decode_node;
};

struct GenerateOutcome {
  FinishReason finish = FinishReason::kNone;
  int prompt_tokens = 0;
  int output_tokens = 0;
  uint64_t seed = 0;
  GenerateTimings timings;
  std::string request_id;
};

// What is known before the first token.
struct GenerateStart {
  int prompt_tokens = 0;
  uint64_t seed = 0;
  std::string request_id;
};

// Where the pieces of one answer go. One thread.
class DeltaSink {
 public:
  virtual ~DeltaSink() = default;
  // Once, before any Write, when the request has been checked. As Write.
  virtual absl::Status Begin(const GenerateStart& start) = 0;
  // May wait until there is room, which is what holds back the node when a client is slow. An error
  // (the client left) ends the request.
  virtual absl::Status Write(GenerateDelta delta) = 0;
};

struct ScoreInput {
  Prompt prompt;
  ScoreRequest request;  // the router fills in the tokens, and the id where it is empty
};

struct ScoreOutcome {
  std::vector<int32_t> token_ids;
  v1::ScoreTokensReply scores;
};

struct ServedModel {
  std::string name;
  std::string numerics_id;
  int vocabulary = 0;
  int max_positions = 0;
  int64_t kv_bytes_per_token = 0;
  bool has_tokenizer = false;
  bool has_chat_template = false;
  std::vector<int32_t> end_token_ids;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_INFERENCE_H_
