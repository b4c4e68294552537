#ifndef HEADWAY_RUNTIME_TRANSFER_LOCAL_TRANSPORT_H_
#define HEADWAY_RUNTIME_TRANSFER_LOCAL_TRANSPORT_H_

#include <memory>

#include "runtime/base/clock.h"
#include "runtime/transfer/transport.h"

namespace headway {

// Transports between threads of one process, for tests: the twin of UcxTransport. Those of one hub
// reach one another. Each has a thread of its own that delivers what arrives.
//
// Thread-safe. The hub may be destroyed before its transports.
class LocalTransportHub {
 public:
  LocalTransportHub();
  ~LocalTransportHub();
  // `clock` must outlive the transport.
  std::unique_ptr<Transport> Create(const TransportLimits& limits = {},
                                    const Clock& clock = Clock::Real());

  class Registry;

 private:
  std::shared_ptr<Registry> registry_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_LOCAL_TRANSPORT_H_
