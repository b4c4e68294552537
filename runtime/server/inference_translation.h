#ifndef HEADWAY_RUNTIME_SERVER_INFERENCE_TRANSLATION_H_
#define HEADWAY_RUNTIME_SERVER_INFERENCE_TRANSLATION_H_

#include "absl/status/statusor.h"
#include "proto/headway/v1/inference.pb.h"
#include "runtime/router/inference.h"

namespace headway {

// The public messages in the router's words, and back. Values are judged by the router, except what
// its words cannot say: InvalidArgument for a prompt that is not set.

absl::StatusOr<Prompt> FromProto(const v1::Prompt& prompt);
absl::StatusOr<GenerateInput> FromProto(const v1::GenerateRequest& request);
absl::StatusOr<ScoreInput> FromProto(const v1::ScoreRequest& request);

// `with_logprobs`: the request asked for them. Moves out of `delta`.
void ToProto(GenerateDelta& delta, bool with_logprobs, v1::GenerateResponse& out);
void ToProto(const GenerateStart& start, v1::GenerateStart& out);
void ToProto(const GenerateOutcome& outcome, v1::GenerateSummary& out);
void ToProto(ScoreOutcome& outcome, v1::ScoreResponse& out);
void ToProto(const ServedModel& model, v1::Model& out);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_INFERENCE_TRANSLATION_H_
