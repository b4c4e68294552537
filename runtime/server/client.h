#ifndef HEADWAY_RUNTIME_SERVER_CLIENT_H_
#define HEADWAY_RUNTIME_SERVER_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/headway/v1/inference.pb.h"
#include "runtime/cluster/call_scope.h"

namespace headway {

// Calls to a router. Thread-safe; each call waits for its answer, at most until its scope's
// deadline, or until the scope is cancelled, from whichever thread. Errors are the server's own,
// word for word; where nobody answers, or the router goes away, UNAVAILABLE names the address.
class Client {
 public:
  // Hears each message of a stream as it comes; false ends the call, which then returns Cancelled.
  using OnResponse = std::function<bool(const v1::GenerateResponse&)>;

  // Connects to HOST:PORT and waits up to `timeout_seconds`, in `scope`, until it serves.
  // Unavailable names the address, and says why: the connection was refused (told at once), nobody
  // answered, or who answered is not a router or does not serve yet.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(CallScope& scope,
                                                         const std::string& address,
                                                         double timeout_seconds);
  virtual ~Client() = default;

  virtual const std::string& address() const = 0;

  // `on_response` also hears the last message, whose summary is what this returns.
  virtual absl::StatusOr<v1::GenerateSummary> Generate(CallScope& scope,
                                                       const v1::GenerateRequest& request,
                                                       const OnResponse& on_response) = 0;
  virtual absl::StatusOr<v1::ScoreResponse> Score(CallScope& scope,
                                                  const v1::ScoreRequest& request) = 0;
  virtual absl::StatusOr<v1::TokenizeResponse> Tokenize(CallScope& scope,
                                                        const v1::TokenizeRequest& request) = 0;
  virtual absl::StatusOr<v1::DetokenizeResponse> Detokenize(
      CallScope& scope, const v1::DetokenizeRequest& request) = 0;
  virtual absl::StatusOr<v1::Model> GetModel(CallScope& scope) = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_CLIENT_H_
