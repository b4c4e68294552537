#ifndef HEADWAY_RUNTIME_CLUSTER_CHANNEL_H_
#define HEADWAY_RUNTIME_CLUSTER_CHANNEL_H_

#include <memory>
#include <string>

namespace grpc {
class Channel;
}  // namespace grpc

namespace headway {

// The largest message that any port of this project takes: the trace of a long prompt is the
// largest that is sent.
inline constexpr int kMaxMessageBytes = 64 << 20;

// How often a connection on which a call waits is checked, and how long the peer may take to answer
// that: a peer that hangs or a machine that is gone ends its calls with UNAVAILABLE after both.
inline constexpr int kKeepaliveMillis = 2500;
inline constexpr int kKeepaliveAnswerMillis = 5000;

// A connection of its own (nothing shared with other channels of the process) to HOST:PORT, made
// when first used and made again, within a second of the peer's return, when lost. Never through
// an HTTP proxy. Thread-safe.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_CHANNEL_H_
