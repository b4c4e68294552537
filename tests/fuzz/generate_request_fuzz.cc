// The bytes of a GenerateRequest, as the router takes them up to the first message to a node: its
// own words, token ids, every check. Then the answer's text, as if the model repeated the prompt.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "proto/headway/v1/inference.pb.h"
#include "runtime/base/check.h"
#include "runtime/base/utf8.h"
#include "runtime/request/validate.h"
#include "runtime/router/output_text.h"
#include "runtime/router/prompt_encoder.h"
#include "runtime/router/test_text.h"
#include "runtime/server/inference_translation.h"
#include "runtime/text/stop_strings.h"
#include "tests/fuzz/fuzz_input.h"

namespace headway::fuzz {
namespace {

constexpr ModelLimits kLimits = {
    .vocabulary = kTestVocabulary, .max_positions = 8192, .kv_positions = 4096};

// Control tokens are those of the encoder itself, whatever the request spells.
void CheckControlTokens(const Prompt& prompt, const std::vector<int32_t>& ids) {
  const auto count = [&ids](int32_t id) { return std::count(ids.begin(), ids.end(), id); };
  if (std::holds_alternative<std::string>(prompt)) {
    HEADWAY_CHECK(count(kTestStart) == 1 && ids[0] == kTestStart);
    HEADWAY_CHECK(count(kTestTurn) == 0 && count(kTestEnd) == 0);
  } else if (const auto* chat = std::get_if<std::vector<text::ChatMessage>>(&prompt)) {
    const auto messages = static_cast<std::ptrdiff_t>(chat->size());
    HEADWAY_CHECK(count(kTestStart) == 0);
    HEADWAY_CHECK(count(kTestTurn) == messages + 1 && count(kTestEnd) == messages);
  }
}

void Answer(const PromptEncoder& encoder, const GenerateRequest& request) {
  auto stops = text::StopMatcher::Create(request.stop, request.include_stop_string);
  if (!stops.ok()) return CheckError(stops.status());
  OutputText output(encoder.tokenizer(), request.include_control_tokens, *std::move(stops),
                    request.sampling.min_tokens);
  for (const int32_t id : request.prompt) {
    HEADWAY_CHECK(IsUtf8(output.Take(id)));
    if (output.stopped()) break;
  }
  HEADWAY_CHECK(IsUtf8(output.Finish()));
}

void Serve(const v1::GenerateRequest& message) {
  static const std::unique_ptr<PromptEncoder> encoder = TestEncoder();
  absl::StatusOr<GenerateInput> input = FromProto(message);
  if (!input.ok()) return CheckError(input.status());
  absl::StatusOr<std::vector<int32_t>> ids = encoder->Encode(input->prompt, kLimits.max_positions);
  if (!ids.ok()) return CheckError(ids.status());
  CheckControlTokens(input->prompt, *ids);

  GenerateRequest request = std::move(input->request);
  request.prompt = *std::move(ids);
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  request.sampling.max_tokens =
      input->max_tokens.value_or(DefaultMaxTokens(prompt_tokens, kLimits));
  request.sampling.seed = input->seed.value_or(0);
  if (const auto status = ValidateGenerate(request, kLimits); !status.ok()) {
    return CheckError(status);
  }
  HEADWAY_CHECK(prompt_tokens + request.sampling.max_tokens <= kLimits.kv_positions);
  for (const int32_t id : request.prompt) HEADWAY_CHECK(id >= 0 && id < kTestVocabulary);
  Answer(*encoder, request);
}

}  // namespace
}  // namespace headway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // It would write a line for every string that is no UTF-8.
  static const google::protobuf::LogSilencer silencer;
  headway::v1::GenerateRequest message;
  // gRPC answers what is no such message; so does it for text that is no UTF-8.
  if (message.ParseFromArray(data, static_cast<int>(size))) headway::fuzz::Serve(message);
  return 0;
}
