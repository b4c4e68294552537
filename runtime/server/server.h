#ifndef HEADWAY_RUNTIME_SERVER_SERVER_H_
#define HEADWAY_RUNTIME_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace headway {

// A service and its full name, under which its health is told, e.g. "headway.v1.Node".
struct ServedService {
  grpc::Service* service = nullptr;
  std::string name;
};

// One gRPC port with some services, the standard health service and reflection. Thread-safe.
class Server {
 public:
  // Listens on `listen`, HOST:PORT; port 0 lets the system choose. The services outlive the server.
  // Health is NOT_SERVING until SetServing. InvalidArgument for an address that cannot be read or
  // Unavailable where the port is taken; both name the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& listen,
                                                       const std::vector<ServedService>& services);
  // As Shutdown(0).
  ~Server();

  // HOST:PORT with the port in use, as a client of this machine would write it.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // What health says, of every service and of the server as a whole.
  void SetServing(bool serving);

  // NOT_SERVING, no new calls; running ones may end by themselves for `grace_seconds`, then are
  // cancelled. Returns when none is left. Further calls of this do nothing.
  void Shutdown(double grace_seconds);

 private:
  Server() = default;

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int port_ = 0;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_SERVER_SERVER_H_
