#include "runtime/server/server.h"

#include <chrono>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "runtime/base/host_port.h"
#include "runtime/base/status.h"
#include "runtime/cluster/channel.h"

namespace headway {
namespace {

// What gRPC keeps for the process as a whole; must be said before the first server is built.
void EnablePlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

// How a client of this machine reaches a server that listens on `host`.
std::string ReachableHost(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host == "[::]") return "[::1]";
  return host;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::string& listen,
                                                      const std::vector<ServedService>& services) {
  absl::StatusOr<HostPort> place = ParseHostPort(listen);
  if (!place.ok()) return Annotate(place.status(), "listen");
  EnablePlugins();
  std::unique_ptr<Server> server(new Server());
  grpc::ServerBuilder builder;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &server->port_);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // Else a second server on a port that is taken would start, and get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may check their connection as often as channel.h does, and somewhat more.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMillis / 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // A server whose client's machine is gone finds out and frees what the client held.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveAnswerMillis);
  for (const ServedService& served : services) builder.RegisterService(served.service);
  server->server_ = builder.BuildAndStart();
  if (!server->server_ || server->port_ == 0) {
    server->server_.reset();
    return absl::UnavailableError(
        absl::StrCat("listen on ", listen,
                     ": the port is taken, or the host is not an address of this machine"));
  }
  server->address_ = absl::StrCat(ReachableHost(place->host), ":", server->port_);
  for (const ServedService& served : services) {
    server->server_->GetHealthCheckService()->SetServingStatus(served.name, false);
  }
  server->SetServing(false);
  return server;
}

Server::~Server() { Shutdown(0); }

void Server::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void Server::Shutdown(double grace_seconds) {
  if (!server_) return;
  SetServing(false);
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::microseconds(static_cast<int64_t>(grace_seconds * 1e6)));
}

}  // namespace headway
