#ifndef HEADWAY_RUNTIME_CLUSTER_NODE_CLIENT_H_
#define HEADWAY_RUNTIME_CLUSTER_NODE_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/cluster/call_scope.h"

namespace headway {

// The tokens of one running sequence, as its node sends them. One thread at a time.
class TokenStream {
 public:
  // Ends the call when it has not ended, which frees everything that the node held for it.
  virtual ~TokenStream() = default;
  // Waits for more tokens. True: `batch` holds them. False: the stream ended well. An error is the
  // node's own, or that of the connection, or the scope's.
  virtual absl::StatusOr<bool> Read(v1::TokenBatch& batch) = 0;
};

// Calls to one node. Thread-safe; each call waits for its answer, at most until its scope's
// deadline or cancellation, except those named Async.
//
// Errors are the node's own, word for word and with their details (error_details.h); UNAVAILABLE,
// which may come from the connection, is preceded by the node's address and the call. CANCELLED is
// always the scope's: a node that cancels by itself is UNAVAILABLE.
class NodeClient {
 public:
  // Connects to HOST:PORT with the first call; never fails itself.
  static std::unique_ptr<NodeClient> Connect(const std::string& address);
  virtual ~NodeClient() = default;

  virtual const std::string& address() const = 0;

  virtual absl::StatusOr<v1::Reservation> Reserve(CallScope& scope,
                                                  const v1::ReserveRequest& request) = 0;
  virtual absl::Status Release(CallScope& scope, const v1::ReleaseRequest& request) = 0;
  // Streams outlive neither the client nor the scope.
  virtual std::unique_ptr<TokenStream> Decode(CallScope& scope,
                                              const v1::DecodeRequest& request) = 0;
  virtual std::unique_ptr<TokenStream> Generate(CallScope& scope,
                                                const v1::NodeGenerateRequest& request) = 0;
  virtual absl::StatusOr<v1::ScoreTokensReply> ScoreTokens(
      CallScope& scope, const v1::ScoreTokensRequest& request) = 0;
  virtual absl::StatusOr<v1::NodeLoad> GetLoad(CallScope& scope) = 0;

  // Return at once; `done` runs once, on a thread of the gRPC library, where it must not wait.
  // `scope` and this client outlive it. The request need not outlive the call of the function.
  virtual void PrefillAsync(CallScope& scope, const v1::PrefillRequest& request,
                            std::function<void(absl::StatusOr<v1::PrefillReply>)> done) = 0;
  virtual void RenewAsync(CallScope& scope, const v1::RenewRequest& request,
                          std::function<void(absl::StatusOr<v1::RenewReply>)> done) = 0;
  virtual void GetInfoAsync(CallScope& scope,
                            std::function<void(absl::StatusOr<v1::NodeInfo>)> done) = 0;
  virtual void GetLoadAsync(CallScope& scope,
                            std::function<void(absl::StatusOr<v1::NodeLoad>)> done) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_NODE_CLIENT_H_
