#ifndef HEADWAY_RUNTIME_SERVER_NODE_TRANSLATION_H_
#define HEADWAY_RUNTIME_SERVER_NODE_TRANSLATION_H_

#include "absl/status/status.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/node/tasks.h"

namespace headway {

// The node's words as messages and back. Values are not judged here: the node loop does that.
absl::Status NumericsMismatch(const std::string& asked, const std::string& own);

v1::NodeRole ToProto(NodeRole role);
void ToProto(const TokenEvent& event, v1::Token& out);
void ToProto(const PositionTrace& trace, v1::PositionDigest& out);
void ToProto(const ReservationGrant& grant, v1::Reservation& out);
void ToProto(const PrefillResult& result, v1::PrefillReply& out);
void ToProto(const ScoreResult& result, v1::ScoreTokensReply& out);
void ToProto(const NodeLoad& load, v1::NodeLoad& out);

SamplingParams FromProto(const v1::NodeSampling& sampling);
ReservationGrant FromProto(const v1::Reservation& reservation);
Manifest FromProto(const v1::SealedManifest& manifest);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_NODE_TRANSLATION_H_
