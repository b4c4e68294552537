#include "runtime/transfer/ucx_transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/transfer/send_buffers.h"
#include "runtime/transfer/ucx_address.h"
#include "runtime/transfer/ucx_library.h"
#include "runtime/transfer/ucx_worker.h"

namespace headway {
namespace {

constexpr unsigned kActiveMessage = 1;
constexpr size_t kKeptBufferBytes = 16 << 20;
// How often a thread with messages under way looks at its clock, which a test may move by hand.
constexpr int kDeadlineCheckMillis = 5;
// While shared memory towards a peer is full UCX cannot wait for room but only look again: so many
// times at once, then with pauses that double up to the longest.
constexpr int kLooksBeforePause = 100;
constexpr long kShortestPauseNanos = 20'000;
constexpr long kLongestPauseNanos = 1'000'000;

// Before the header and the payload of each message; all three lie in one buffer.
struct MessagePrefix {
  static constexpr uint32_t kMagic = 0x31544b48;  // "HKT1"
  uint32_t magic = kMagic;
  uint32_t header_bytes = 0;
};

struct Message;

// A transport at the other end, and the endpoint that leads to it.
struct Peer : std::enable_shared_from_this<Peer> {
  class UcxEndpoints* transport = nullptr;
  std::string address;
  std::string name;
  int64_t pending_bytes = 0;  // guarded by the transport's mutex

  // The rest is the thread's own.
  bool active = false;  // has messages, or an endpoint to be closed
  ucp_ep_h endpoint = nullptr;
  bool watched = false;     // UCX tells when the endpoint's other end dies
  void* closing = nullptr;  // the request that closes the endpoint
  absl::Status failure;     // of the endpoint; it takes no more messages
  std::deque<std::unique_ptr<Message>> queue;
  std::list<std::unique_ptr<Message>> in_flight;  // given to UCX, which still reads the buffers
  int64_t in_flight_bytes = 0;
  int late = 0;  // of these, past their deadline
};

struct Message {
  std::shared_ptr<Peer> peer;
  SendBuffers::Buffer buffer;
  size_t bytes = 0;      // in the buffer
  Transport::Done done;  // null once called
  int64_t deadline_nanos = 0;
  void* request = nullptr;                              // of UCX, while it is in flight
  std::list<std::unique_ptr<Message>>::iterator place;  // in in_flight
};

// One worker, and an endpoint for each peer that it has sent to.
class UcxEndpoints : public Transport {
 public:
  UcxEndpoints(const UcxLibrary& ucx, const UcxOptions& options, const Clock& clock)
      : ucx_(ucx), options_(options), clock_(clock), buffers_(kKeptBufferBytes) {}
  ~UcxEndpoints() override;
  absl::Status Start();

  std::string address() const override { return address_; }

  void SetReceiver(Receiver receiver) override {
    std::lock_guard lock(receiver_mutex_);
    receiver_ = std::move(receiver);
  }

  void SendPieces(const std::string& peer_address, std::span<const std::byte> header,
                  std::span<const std::span<const std::byte>> pieces, Done done) override;

 private:
  absl::StatusOr<std::shared_ptr<Peer>> Accept(const std::string& peer_address, size_t header_bytes,
                                               size_t payload_bytes, int64_t message_bytes);

  static ucs_status_t OnMessage(void* arg, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* message);
  static void OnPeerFailure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  void Deliver(const std::byte* data, size_t length);

  void Run();
  void Activate(std::shared_ptr<Peer> peer);
  bool TakeInbox();
  void ServePeer(Peer& peer);
  void Pump(Peer& peer);
  void Connect(Peer& peer);
  void CloseEndpoint(Peer& peer);
  void ExpireDeadlines(Peer& peer, int64_t now);
  void Finish(Message* message, const absl::Status& status);
  void Release(std::unique_ptr<Message> message, const absl::Status& status);
  void ForgetIdlePeers();
  void Wait();
  void Shutdown();
  void Wake();

  const UcxLibrary& ucx_;
  const UcxOptions options_;
  const Clock& clock_;
  SendBuffers buffers_;
  std::unique_ptr<UcxWorker> worker_;
  int wake_fd_ = -1;
  std::string address_;

  std::mutex receiver_mutex_;  // held during a call
  Receiver receiver_;

  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Message>> inbox_;
  bool stop_ = false;

  // The thread's own.
  std::vector<std::shared_ptr<Peer>> active_;
  int fruitless_looks_ = 0;
  bool complained_ = false;
  bool closed_ = false;  // every message has ended

  std::thread thread_;
};

UcxEndpoints::~UcxEndpoints() {
  if (thread_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    Wake();
    thread_.join();
  }
  worker_.reset();
  // Only now does UCX read none of their buffers. A message keeps its peer, so the circle is cut
  // here.
  for (const std::shared_ptr<Peer>& peer : active_) peer->in_flight.clear();
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status UcxEndpoints::Start() {
  HEADWAY_ASSIGN_OR_RETURN(worker_,
                           UcxWorker::Create(ucx_, options_.transports, options_.net_devices));
  HEADWAY_RETURN_IF_ERROR(worker_->SetHandler(kActiveMessage, OnMessage, this));
  HEADWAY_ASSIGN_OR_RETURN(const std::string worker_address, worker_->Address());
  address_ = WrapUcxAddress(worker_address);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Peer>> UcxEndpoints::Accept(const std::string& peer_address,
                                                           size_t header_bytes,
                                                           size_t payload_bytes,
                                                           int64_t message_bytes) {
  if (header_bytes > kMaxHeaderBytes || payload_bytes > kMaxPayloadBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "send: header of ", header_bytes, " and payload of ", payload_bytes, " bytes; at most ",
        kMaxHeaderBytes, " and ", kMaxPayloadBytes, " are allowed"));
  }
  std::lock_guard lock(mutex_);
  if (stop_) return absl::CancelledError("send: the transport is being closed");
  auto found = peers_.find(peer_address);
  if (found == peers_.end()) {
    HEADWAY_RETURN_IF_ERROR(Annotate(UnwrapUcxAddress(peer_address).status(), "send"));
    auto peer = std::make_shared<Peer>();
    peer->transport = this;
    peer->address = peer_address;
    peer->name = UcxAddressName(peer_address);
    found = peers_.emplace(peer_address, std::move(peer)).first;
  }
  Peer& peer = *found->second;
  if (peer.pending_bytes + message_bytes > options_.limits.max_pending_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("send: ", peer.pending_bytes, " + ", message_bytes, " bytes are pending to ",
                     peer.name, "; at most ", options_.limits.max_pending_bytes));
  }
  peer.pending_bytes += message_bytes;
  return found->second;
}

void UcxEndpoints::SendPieces(const std::string& peer_address, std::span<const std::byte> header,
                              std::span<const std::span<const std::byte>> pieces, Done done) {
  size_t payload_bytes = 0;
  for (std::span<const std::byte> piece : pieces) payload_bytes += piece.size();
  const MessagePrefix prefix = {.header_bytes = static_cast<uint32_t>(header.size())};
  const size_t bytes = sizeof(prefix) + header.size() + payload_bytes;
  absl::StatusOr<std::shared_ptr<Peer>> peer =
      Accept(peer_address, header.size(), payload_bytes, static_cast<int64_t>(bytes));
  if (!peer.ok()) {
    done(peer.status());
    return;
  }
  auto message = std::make_unique<Message>();
  message->peer = *std::move(peer);
  message->buffer = buffers_.Take(bytes);
  message->bytes = bytes;
  message->done = std::move(done);
  message->deadline_nanos = clock_.NowNanos() + options_.limits.send_timeout_nanos;
  std::byte* at = message->buffer.bytes.get();
  auto append = [&at](const void* data, size_t size) {
    if (size > 0) std::memcpy(at, data, size);
    at += size;
  };
  append(&prefix, sizeof(prefix));
  append(header.data(), header.size());
  for (std::span<const std::byte> piece : pieces) append(piece.data(), piece.size());
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = inbox_.empty();
    inbox_.push_back(std::move(message));
  }
  if (first) Wake();
}

void UcxEndpoints::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is about to wake up anyway.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

ucs_status_t UcxEndpoints::OnMessage(void* arg, const void*, size_t, void* data, size_t length,
                                     const ucp_am_recv_param_t* param) {
  // Everything is sent eagerly; what only announces itself is of some other program.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) length = 0;
  static_cast<UcxEndpoints*>(arg)->Deliver(static_cast<const std::byte*>(data), length);
  return UCS_OK;
}

void UcxEndpoints::Deliver(const std::byte* data, size_t length) {
  MessagePrefix prefix = {.magic = 0};
  if (length >= sizeof(prefix)) std::memcpy(&prefix, data, sizeof(prefix));
  if (prefix.magic != MessagePrefix::kMagic || prefix.header_bytes > kMaxHeaderBytes ||
      prefix.header_bytes > length - sizeof(prefix)) {
    if (!std::exchange(complained_, true)) {
      LogWarning(absl::StrCat("KV transport: dropped a message of ", length,
                              " bytes that is none of ours; more are dropped in silence"));
    }
    return;
  }
  const std::span<const std::byte> header(data + sizeof(prefix), prefix.header_bytes);
  const std::span<const std::byte> payload(header.data() + header.size(),
                                           length - sizeof(prefix) - header.size());
  std::lock_guard lock(receiver_mutex_);
  if (receiver_) receiver_(header, payload);
}

void UcxEndpoints::OnSent(void* request, ucs_status_t status, void* arg) {
  Message* const message = static_cast<Message*>(arg);
  UcxEndpoints* const self = message->peer->transport;
  if (self->closed_) return;
  self->ucx_.ucp_request_free(request);
  self->Finish(message, UcxStatus(self->ucx_, status, "send"));
}

void UcxEndpoints::OnPeerFailure(void* arg, ucp_ep_h, ucs_status_t status) {
  Peer* const peer = static_cast<Peer*>(arg);
  if (!peer->failure.ok()) return;
  peer->failure = UcxStatus(peer->transport->ucx_, status, "connection lost");
  // Also of an idle peer: what its endpoint holds, shared memory of the dead among it, is let go.
  peer->transport->Activate(peer->shared_from_this());
}

void UcxEndpoints::Run() {
  while (TakeInbox()) {
    bool moved = false;
    // Bounded, so that a stream of arrivals does not keep messages from leaving.
    for (int i = 0; i < 64 && ucx_.ucp_worker_progress(worker_->handle()) != 0; ++i) moved = true;
    const int64_t now = clock_.NowNanos();
    for (size_t i = 0; i < active_.size(); ++i) {
      ExpireDeadlines(*active_[i], now);
      ServePeer(*active_[i]);
    }
    ForgetIdlePeers();
    if (moved) {
      fruitless_looks_ = 0;
    } else {
      Wait();
    }
  }
  Shutdown();
}

void UcxEndpoints::Activate(std::shared_ptr<Peer> peer) {
  if (!std::exchange(peer->active, true)) active_.push_back(std::move(peer));
}

// Distributes new messages to their peers' queues. False when the transport is to stop.
bool UcxEndpoints::TakeInbox() {
  std::vector<std::unique_ptr<Message>> messages;
  bool stop;
  {
    std::lock_guard lock(mutex_);
    messages.swap(inbox_);
    stop = stop_;
  }
  for (std::unique_ptr<Message>& message : messages) {
    Activate(message->peer);
    std::deque<std::unique_ptr<Message>>& queue = message->peer->queue;
    queue.push_back(std::move(message));
  }
  return !stop;
}

void UcxEndpoints::ServePeer(Peer& peer) {
  if (peer.closing != nullptr) {
    if (ucx_.ucp_request_check_status(peer.closing) == UCS_INPROGRESS) return;
    ucx_.ucp_request_free(std::exchange(peer.closing, nullptr));
  }
  if (peer.failure.ok() && peer.late == 0) Pump(peer);
  if (peer.failure.ok() && peer.late == 0) return;
  // UCX has failed or holds messages for too long: what waits behind them fails now.
  const absl::Status why =
      !peer.failure.ok()
          ? absl::UnavailableError(
                absl::StrCat("send to ", peer.name, ": ", peer.failure.message()))
          : absl::UnavailableError(
                absl::StrCat("send to ", peer.name, ": it has not taken earlier messages in time"));
  std::deque<std::unique_ptr<Message>> refused;
  refused.swap(peer.queue);
  for (std::unique_ptr<Message>& message : refused) Release(std::move(message), why);
  if (!peer.failure.ok() && peer.in_flight.empty()) CloseEndpoint(peer);
}

// Gives UCX as many messages as may be in flight.
void UcxEndpoints::Pump(Peer& peer) {
  while (!peer.queue.empty() && peer.failure.ok() &&
         (peer.in_flight.empty() || peer.in_flight_bytes < options_.max_in_flight_bytes)) {
    if (peer.endpoint == nullptr) {
      Connect(peer);
      continue;
    }
    peer.in_flight.push_back(std::move(peer.queue.front()));
    peer.queue.pop_front();
    Message* const message = peer.in_flight.back().get();
    message->place = std::prev(peer.in_flight.end());
    peer.in_flight_bytes += static_cast<int64_t>(message->bytes);

    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = OnSent;
    param.user_data = message;
    // Eager messages stay in order and arrive whole; at these sizes rendezvous is no faster.
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    void* const request = ucx_.ucp_am_send_nbx(peer.endpoint, kActiveMessage, nullptr, 0,
                                               message->buffer.bytes.get(), message->bytes, &param);
    if (request == nullptr) {
      Finish(message, absl::OkStatus());
    } else if (UCS_PTR_IS_ERR(request)) {
      const absl::Status status = UcxStatus(ucx_, UCS_PTR_STATUS(request), "send");
      if (peer.failure.ok()) peer.failure = status;
      Finish(message, status);
    } else {
      message->request = request;
    }
  }
}

void UcxEndpoints::Connect(Peer& peer) {
  const absl::StatusOr<std::string_view> worker_address = UnwrapUcxAddress(peer.address);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(worker_address->data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = OnPeerFailure;
  params.err_handler.arg = &peer;
  ucs_status_t status = ucx_.ucp_ep_create(worker_->handle(), &params, &peer.endpoint);
  peer.watched = status == UCS_OK;
  if (status == UCS_ERR_UNREACHABLE) {
    // Shared memory refuses the mode that reports dead peers.
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    status = ucx_.ucp_ep_create(worker_->handle(), &params, &peer.endpoint);
  }
  peer.failure = UcxStatus(ucx_, status, "no connection");
  if (!peer.failure.ok()) peer.endpoint = nullptr;
}

// After a failure; the next message tries anew.
void UcxEndpoints::CloseEndpoint(Peer& peer) {
  peer.failure = absl::OkStatus();
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = peer.watched ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  void* const request = ucx_.ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) peer.closing = request;
}

void UcxEndpoints::ExpireDeadlines(Peer& peer, int64_t now) {
  auto status = [&] {
    return absl::DeadlineExceededError(
        absl::StrCat("send to ", peer.name, ": it has not taken the message in ",
                     options_.limits.send_timeout_nanos / 1'000'000, " ms"));
  };
  for (std::unique_ptr<Message>& message : peer.in_flight) {
    if (now < message->deadline_nanos) break;
    if (!message->done) continue;
    ++peer.late;
    std::exchange(message->done, nullptr)(status());
  }
  while (!peer.queue.empty() && now >= peer.queue.front()->deadline_nanos) {
    std::unique_ptr<Message> message = std::move(peer.queue.front());
    peer.queue.pop_front();
    Release(std::move(message), status());
  }
}

// UCX reads a message's buffer no longer.
void UcxEndpoints::Finish(Message* message, const absl::Status& status) {
  Peer& peer = *message->peer;
  std::unique_ptr<Message> owned = std::move(*message->place);
  peer.in_flight.erase(message->place);
  peer.in_flight_bytes -= static_cast<int64_t>(owned->bytes);
  if (!owned->done) --peer.late;
  Release(std::move(owned),
          status.ok() ? status : Annotate(status, absl::StrCat("message to ", peer.name)));
}

void UcxEndpoints::Release(std::unique_ptr<Message> message, const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    message->peer->pending_bytes -= static_cast<int64_t>(message->bytes);
  }
  buffers_.Return(std::move(message->buffer));
  if (message->done) message->done(status);
}

// Peers come and go, each with a new address: those that failed and have nothing pending are
// forgotten, others only leave the list of those to look after.
void UcxEndpoints::ForgetIdlePeers() {
  std::erase_if(active_, [this](const std::shared_ptr<Peer>& peer) {
    if (!peer->queue.empty() || !peer->in_flight.empty() || peer->closing != nullptr ||
        !peer->failure.ok()) {
      return false;
    }
    peer->active = false;
    if (peer->endpoint == nullptr) {
      std::lock_guard lock(mutex_);
      if (peer->pending_bytes == 0) peers_.erase(peer->address);
    }
    return true;
  });
}

void UcxEndpoints::Wait() {
  pollfd descriptors[2] = {{wake_fd_, POLLIN, 0}, {worker_->event_fd(), POLLIN, 0}};
  int count = 2;
  timespec pause{};
  timespec* timeout = nullptr;
  if (ucx_.ucp_worker_arm(worker_->handle()) == UCS_OK) {
    fruitless_looks_ = 0;
    if (!active_.empty()) {
      pause.tv_nsec = kDeadlineCheckMillis * 1'000'000;
      timeout = &pause;
    }
  } else {
    // Something has happened since the last look, or UCX waits for room in shared memory.
    const int looks = ++fruitless_looks_;
    if (looks < kLooksBeforePause) return;
    const int doublings = std::min(looks - kLooksBeforePause, 10);
    pause.tv_nsec = std::min(kShortestPauseNanos << doublings, kLongestPauseNanos);
    timeout = &pause;
    count = 1;
  }
  if (ppoll(descriptors, count, timeout, nullptr) > 0 && descriptors[0].revents != 0) {
    uint64_t wakes;
    [[maybe_unused]] const ssize_t ignored = read(wake_fd_, &wakes, sizeof(wakes));
  }
}

// Lets messages in flight leave for a while, then ends every message and gives UCX its requests
// back: it must not be destroyed with any outstanding.
void UcxEndpoints::Shutdown() {
  const absl::Status cancelled = absl::CancelledError("send: the transport was closed");
  for (const std::shared_ptr<Peer>& peer : active_) {
    std::deque<std::unique_ptr<Message>> queue;
    queue.swap(peer->queue);
    for (std::unique_ptr<Message>& message : queue) Release(std::move(message), cancelled);
  }
  ucp_request_param_t param{};
  void* flush = ucx_.ucp_worker_flush_nbx(worker_->handle(), &param);
  if (UCS_PTR_IS_ERR(flush)) flush = nullptr;
  auto busy = [&] {
    if (flush != nullptr && ucx_.ucp_request_check_status(flush) == UCS_INPROGRESS) return true;
    for (const std::shared_ptr<Peer>& peer : active_) {
      if (peer->late == 0 && !peer->in_flight.empty()) return true;
    }
    return false;
  };
  const int64_t deadline = Clock::Real().NowNanos() + options_.close_grace_nanos;
  while (busy() && Clock::Real().NowNanos() < deadline) {
    if (ucx_.ucp_worker_progress(worker_->handle()) == 0) {
      const timespec pause = {0, kShortestPauseNanos};
      nanosleep(&pause, nullptr);
    }
  }
  closed_ = true;
  if (flush != nullptr) ucx_.ucp_request_free(flush);
  for (const std::shared_ptr<Peer>& peer : active_) {
    if (peer->closing != nullptr) ucx_.ucp_request_free(peer->closing);
    for (std::unique_ptr<Message>& message : peer->in_flight) {
      ucx_.ucp_request_free(message->request);
      if (message->done) message->done(cancelled);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> UcxTransport::Create(const UcxOptions& options,
                                                                const Clock& clock) {
  HEADWAY_ASSIGN_OR_RETURN(const UcxLibrary* ucx, UcxLibrary::Load());
  auto transport = std::make_unique<UcxEndpoints>(*ucx, options, clock);
  HEADWAY_RETURN_IF_ERROR(Annotate(transport->Start(), "KV transport"));
  return transport;
}

}  // namespace headway
