#ifndef HEADWAY_RUNTIME_ROUTER_NODE_MESSAGES_H_
#define HEADWAY_RUNTIME_ROUTER_NODE_MESSAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/request/request.h"
#include "runtime/request/sampling_params.h"

namespace headway {

// A checked request in the words of node.proto.

v1::ReserveRequest ReserveMessage(const GenerateRequest& request, const std::string& numerics_id,
                                  uint32_t lease_ms);
v1::PrefillRequest PrefillMessage(const GenerateRequest& request, const std::string& numerics_id,
                                  const v1::Reservation& target);
// `prefilled`: what the prefill node answered.
v1::DecodeRequest DecodeMessage(const GenerateRequest& request, const v1::PrefillReply& prefilled);
v1::NodeGenerateRequest GenerateMessage(const GenerateRequest& request,
                                        const std::string& numerics_id);
v1::ScoreTokensRequest ScoreMessage(const ScoreRequest& request, const std::string& numerics_id);

// What comes back from a node, which may be of another version.

// Why `token` is the last one; kNone when it is not. Internal for a reason that is not known here.
absl::StatusOr<FinishReason> FinishOf(const v1::Token& token);
// Internal, naming what is missing or too much, for an answer that does not fit what was asked.
absl::Status CheckReservation(const v1::Reservation& reservation, uint64_t asked_id);
absl::Status CheckPrefilled(const v1::PrefillReply& reply, const v1::Reservation& target);
absl::Status CheckScores(const v1::ScoreTokensReply& reply, const ScoreRequest& request);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_ROUTER_NODE_MESSAGES_H_
