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
#include "runtime/transfer/ucx_lane.h"
#include "runtime/transfer/ucx_library.h"
#include "runtime/transfer/ucx_message.h"
#include "runtime/transfer/ucx_worker.h"

namespace headway {
namespace {

// Ids of UCX's active messages.
constexpr unsigned kActiveMessage = 1;
constexpr unsigned kLaneControl = 2;
constexpr size_t kKeptBufferBytes = 16 << 20;
// How often a thread with messages under way looks at its clock, which a test may move by hand.
constexpr int kDeadlineCheckMillis = 5;
// Each lane that arrives here costs about a megabyte of shared memory; further peers use the
// network.
constexpr size_t kMaxReaders = 64;
// While a lane to a peer is full UCX cannot wait for room but only look again: so many times at
// once, then with pauses that double up to the longest.
constexpr int kLooksBeforePause = 100;
constexpr long kShortestPauseNanos = 20'000;
constexpr long kLongestPauseNanos = 1'000'000;

struct Message;

// A transport at the other end, and the endpoint that leads to it.
struct Peer : std::enable_shared_from_this<Peer> {
  class UcxEndpoints* transport = nullptr;
  std::string address;
  std::string name;
  int64_t pending_bytes = 0;  // guarded by the transport's mutex

  // The rest is the thread's own.
  bool active = false;          // has messages, or an endpoint to be closed
  ucp_ep_h endpoint = nullptr;  // over the network; UCX tells when its other end dies
  void* closing = nullptr;      // the request that closes the endpoint
  absl::Status failure;         // of the endpoint; it takes no more messages
  std::deque<std::unique_ptr<Message>> controls;  // go before the queue, over the network
  std::deque<std::unique_ptr<Message>> queue;

  // Which way messages go. A lane lives no longer than the endpoint, which tells of the peer's end.
  enum class Way { kUnknown, kAsked, kNetwork, kLane };
  Way way = Way::kUnknown;
  uint64_t ask_id = 0;
  bool overdue = false;  // asked for a lane, and a message's deadline passed
  std::unique_ptr<UcxLaneWriter> writer;
  std::unique_ptr<UcxLaneReader> reader;  // of the peer's lane to here

  // Messages that went over the network.
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
  size_t written = 0;                                   // to a lane
  unsigned id = kActiveMessage;                         // of UCX's active message
  void* request = nullptr;                              // of UCX, while it is in flight
  std::list<std::unique_ptr<Message>>::iterator place;  // in in_flight
};

// One worker for the network with an endpoint for each peer that it has sent to, and lanes from and
// to those of the same host.
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
  absl::StatusOr<std::shared_ptr<Peer>> FindPeer(const std::string& peer_address);
  absl::StatusOr<std::shared_ptr<Peer>> Accept(const std::string& peer_address, size_t header_bytes,
                                               size_t payload_bytes, int64_t message_bytes);

  static ucs_status_t OnMessage(void* arg, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnControl(void* arg, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* message);
  static void OnPeerFailure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  void Deliver(std::span<const std::byte> message);
  void Complain(const std::string& what);

  void Run();
  void Activate(std::shared_ptr<Peer> peer);
  bool TakeInbox();
  void ServePeer(Peer& peer);
  void Pump(Peer& peer);
  void PumpLane(Peer& peer);
  void Post(Peer& peer, std::unique_ptr<Message> owned);
  void ProgressReaders();
  void HandleControls();
  void AnswerAsk(const UcxLaneControl& ask);
  void TakeAnswer(const UcxLaneControl& answer);
  void AskForLane(Peer& peer);
  void QueueControl(Peer& peer, const UcxLaneControl& control);
  void CloseReader(Peer& peer);
  void CloseLanes(Peer& peer);
  void Connect(Peer& peer);
  void CloseEndpoint(Peer& peer);
  void ExpireDeadlines(Peer& peer, int64_t now);
  void Finish(Message* message, const absl::Status& status);
  void Release(std::unique_ptr<Message> message, const absl::Status& status);
  void ForgetIdlePeers();
  void Wait();
  bool ArmAll();
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
  std::vector<std::shared_ptr<Peer>> reading_;  // those that have a reader
  std::vector<UcxLaneControl> controls_;        // arrived
  std::vector<pollfd> descriptors_;
  uint64_t last_ask_id_ = 0;
  bool moved_ = false;  // something was sent or has arrived in this round
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
  HEADWAY_ASSIGN_OR_RETURN(
      worker_, UcxWorker::Create(
                   ucx_, {{"TLS", options_.transports}, {"NET_DEVICES", options_.net_devices}}));
  HEADWAY_RETURN_IF_ERROR(worker_->SetHandler(kActiveMessage, OnMessage, this));
  HEADWAY_RETURN_IF_ERROR(worker_->SetHandler(kLaneControl, OnControl, this));
  HEADWAY_ASSIGN_OR_RETURN(const std::string worker_address, worker_->Address());
  address_ = WrapUcxAddress(worker_address);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

// Of a peer that is new as well; with the mutex held.
absl::StatusOr<std::shared_ptr<Peer>> UcxEndpoints::FindPeer(const std::string& peer_address) {
  auto found = peers_.find(peer_address);
  if (found == peers_.end()) {
    HEADWAY_RETURN_IF_ERROR(UnwrapUcxAddress(peer_address).status());
    auto peer = std::make_shared<Peer>();
    peer->transport = this;
    peer->address = peer_address;
    peer->name = UcxAddressName(peer_address);
    found = peers_.emplace(peer_address, std::move(peer)).first;
  }
  return found->second;
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
  absl::StatusOr<std::shared_ptr<Peer>> found = FindPeer(peer_address);
  HEADWAY_RETURN_IF_ERROR(Annotate(found.status(), "send"));
  Peer& peer = **found;
  if (peer.pending_bytes + message_bytes > options_.limits.max_pending_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("send: ", peer.pending_bytes, " + ", message_bytes, " bytes are pending to ",
                     peer.name, "; at most ", options_.limits.max_pending_bytes));
  }
  peer.pending_bytes += message_bytes;
  return found;
}

void UcxEndpoints::SendPieces(const std::string& peer_address, std::span<const std::byte> header,
                              std::span<const std::span<const std::byte>> pieces, Done done) {
  size_t payload_bytes = 0;
  for (std::span<const std::byte> piece : pieces) payload_bytes += piece.size();
  const size_t bytes = sizeof(UcxMessagePrefix) + header.size() + payload_bytes;
  const UcxMessagePrefix prefix = {.header_bytes = static_cast<uint32_t>(header.size()),
                                   .bytes = bytes};
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
  static_cast<UcxEndpoints*>(arg)->Deliver({static_cast<const std::byte*>(data), length});
  return UCS_OK;
}

ucs_status_t UcxEndpoints::OnControl(void* arg, const void*, size_t, void* data, size_t length,
                                     const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) length = 0;
  UcxEndpoints* const self = static_cast<UcxEndpoints*>(arg);
  // Handled outside of UCX's progress, since that may destroy what is being progressed.
  if (auto control = DecodeLaneControl({static_cast<const std::byte*>(data), length})) {
    self->controls_.push_back(*std::move(control));
  } else {
    self->Complain(absl::StrCat("dropped a message of ", length, " bytes that is none of ours"));
  }
  return UCS_OK;
}

// One line of log for what may come in any number.
void UcxEndpoints::Complain(const std::string& what) {
  if (std::exchange(complained_, true)) return;
  LogWarning(absl::StrCat("KV transport: ", what, "; more of this passes in silence"));
}

void UcxEndpoints::Deliver(std::span<const std::byte> message) {
  UcxMessagePrefix prefix = {.mark = 0};
  if (message.size() >= sizeof(prefix)) std::memcpy(&prefix, message.data(), sizeof(prefix));
  if (prefix.mark != UcxMessagePrefix::kMessage || prefix.bytes != message.size() ||
      prefix.header_bytes > kMaxHeaderBytes ||
      prefix.header_bytes > message.size() - sizeof(prefix)) {
    Complain(absl::StrCat("dropped a message of ", message.size(), " bytes that is none of ours"));
    return;
  }
  const std::span<const std::byte> header = message.subspan(sizeof(prefix), prefix.header_bytes);
  const std::span<const std::byte> payload = message.subspan(sizeof(prefix) + header.size());
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
    moved_ = false;
    // Bounded, so that a stream of arrivals does not keep messages from leaving.
    for (int i = 0; i < 64 && ucx_.ucp_worker_progress(worker_->handle()) != 0; ++i) moved_ = true;
    ProgressReaders();
    HandleControls();
    const int64_t now = clock_.NowNanos();
    for (size_t i = 0; i < active_.size(); ++i) {
      ExpireDeadlines(*active_[i], now);
      ServePeer(*active_[i]);
    }
    ForgetIdlePeers();
    if (moved_) {
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
  if (peer.failure.ok() && peer.late == 0 && !peer.overdue) return;
  // UCX has failed or the peer takes nothing for too long: what waits behind that fails now.
  const absl::Status why =
      !peer.failure.ok()
          ? absl::UnavailableError(
                absl::StrCat("send to ", peer.name, ": ", peer.failure.message()))
          : absl::UnavailableError(
                absl::StrCat("send to ", peer.name, ": it has not taken earlier messages in time"));
  auto refuse = [&](std::deque<std::unique_ptr<Message>>& queue) {
    std::deque<std::unique_ptr<Message>> refused;
    refused.swap(queue);
    for (std::unique_ptr<Message>& message : refused) Release(std::move(message), why);
  };
  refuse(peer.queue);
  if (peer.failure.ok()) return;
  refuse(peer.controls);
  CloseLanes(peer);
  if (peer.in_flight.empty()) CloseEndpoint(peer);
}

// Gives UCX as many messages as may be in flight.
void UcxEndpoints::Pump(Peer& peer) {
  while (peer.failure.ok() && !(peer.controls.empty() && peer.queue.empty())) {
    if (peer.endpoint == nullptr) {
      Connect(peer);
    } else if (!peer.controls.empty()) {
      std::unique_ptr<Message> control = std::move(peer.controls.front());
      peer.controls.pop_front();
      Post(peer, std::move(control));
    } else if (peer.way == Peer::Way::kUnknown) {
      const bool same_host =
          HostNumber() != 0 && UnwrapUcxAddress(peer.address)->host == HostNumber();
      if (same_host && !options_.host_transport.empty()) {
        AskForLane(peer);
      } else {
        peer.way = Peer::Way::kNetwork;
      }
    } else if (peer.way == Peer::Way::kAsked) {
      return;
    } else if (peer.way == Peer::Way::kLane) {
      PumpLane(peer);
      return;
    } else {
      if (!peer.in_flight.empty() && peer.in_flight_bytes >= options_.max_in_flight_bytes) return;
      std::unique_ptr<Message> message = std::move(peer.queue.front());
      peer.queue.pop_front();
      Post(peer, std::move(message));
    }
  }
}

void UcxEndpoints::PumpLane(Peer& peer) {
  while (!peer.queue.empty()) {
    Message& message = *peer.queue.front();
    const size_t before = message.written;
    const absl::Status status =
        peer.writer->Write({message.buffer.bytes.get(), message.bytes}, message.written);
    if (!status.ok()) {
      peer.failure = status;
      return;
    }
    moved_ |= message.written > before;
    if (message.written < message.bytes) return;
    std::unique_ptr<Message> whole = std::move(peer.queue.front());
    peer.queue.pop_front();
    Release(std::move(whole), absl::OkStatus());
  }
}

// Gives a message to the network.
void UcxEndpoints::Post(Peer& peer, std::unique_ptr<Message> owned) {
  Message* const message = owned.get();
  peer.in_flight.push_back(std::move(owned));
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
  void* const request = ucx_.ucp_am_send_nbx(peer.endpoint, message->id, nullptr, 0,
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

void UcxEndpoints::ProgressReaders() {
  for (const std::shared_ptr<Peer>& peer : reading_) {
    moved_ |= peer->reader->Progress();
    if (peer->reader->broken() && peer->failure.ok()) {
      peer->failure = absl::DataLossError("what arrives in shared memory is none of ours");
      Activate(peer);
    }
  }
}

void UcxEndpoints::HandleControls() {
  std::vector<UcxLaneControl> controls;
  controls.swap(controls_);
  for (const UcxLaneControl& control : controls) {
    moved_ = true;
    if (control.kind == UcxLaneControl::kAsk) {
      AnswerAsk(control);
    } else {
      TakeAnswer(control);
    }
  }
}

// A peer wants to send here, for the first time or after it gave up its lane.
void UcxEndpoints::AnswerAsk(const UcxLaneControl& ask) {
  absl::StatusOr<std::shared_ptr<Peer>> peer = absl::UnknownError("");
  {
    std::lock_guard lock(mutex_);
    peer = FindPeer(ask.address);
  }
  if (!peer.ok()) return Complain(std::string(peer.status().message()));
  CloseReader(**peer);
  UcxLaneControl answer = {.kind = UcxLaneControl::kAnswer, .id = ask.id};
  if (!options_.host_transport.empty() && reading_.size() < kMaxReaders) {
    auto reader =
        UcxLaneReader::Create(ucx_, options_.host_transport,
                              [this](std::span<const std::byte> message) { Deliver(message); });
    if (reader.ok()) {
      answer.address = (*reader)->address();
      (*peer)->reader = *std::move(reader);
      reading_.push_back(*peer);
    } else {
      Complain(absl::StrCat("no shared memory for ", (*peer)->name,
                            ", which uses the network: ", reader.status().message()));
    }
  }
  QueueControl(**peer, answer);
}

void UcxEndpoints::TakeAnswer(const UcxLaneControl& answer) {
  auto asked = std::find_if(active_.begin(), active_.end(), [&](const auto& peer) {
    return peer->way == Peer::Way::kAsked && peer->ask_id == answer.id;
  });
  if (asked == active_.end()) return;
  Peer& peer = **asked;
  peer.overdue = false;
  peer.way = Peer::Way::kNetwork;
  if (answer.address.empty()) return;
  auto writer = UcxLaneWriter::Create(ucx_, options_.host_transport, answer.address);
  if (!writer.ok()) {
    Complain(absl::StrCat("no shared memory to ", peer.name,
                          ", the network is used: ", writer.status().message()));
    return;
  }
  peer.writer = *std::move(writer);
  peer.way = Peer::Way::kLane;
}

void UcxEndpoints::AskForLane(Peer& peer) {
  peer.way = Peer::Way::kAsked;
  peer.ask_id = ++last_ask_id_;
  QueueControl(peer, {.kind = UcxLaneControl::kAsk, .id = peer.ask_id, .address = address_});
}

void UcxEndpoints::QueueControl(Peer& peer, const UcxLaneControl& control) {
  const std::string bytes = EncodeLaneControl(control);
  auto message = std::make_unique<Message>();
  message->peer = peer.shared_from_this();
  message->buffer = buffers_.Take(bytes.size());
  message->bytes = bytes.size();
  message->id = kLaneControl;
  message->done = [](const absl::Status&) {};
  message->deadline_nanos = clock_.NowNanos() + options_.limits.send_timeout_nanos;
  std::memcpy(message->buffer.bytes.get(), bytes.data(), bytes.size());
  {
    std::lock_guard lock(mutex_);
    peer.pending_bytes += static_cast<int64_t>(bytes.size());
  }
  peer.controls.push_back(std::move(message));
  Activate(peer.shared_from_this());
}

// The peer writes no more: it has died, closed its end, or asks for another lane.
void UcxEndpoints::CloseReader(Peer& peer) {
  if (peer.reader == nullptr) return;
  peer.reader->Drain();
  peer.reader.reset();
  std::erase_if(reading_, [&](const auto& other) { return other.get() == &peer; });
}

void UcxEndpoints::CloseLanes(Peer& peer) {
  CloseReader(peer);
  peer.writer.reset();
  peer.way = Peer::Way::kUnknown;
  peer.overdue = false;
}

void UcxEndpoints::Connect(Peer& peer) {
  const absl::StatusOr<UcxAddress> address = UnwrapUcxAddress(peer.address);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address->worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = OnPeerFailure;
  params.err_handler.arg = &peer;
  const ucs_status_t status = ucx_.ucp_ep_create(worker_->handle(), &params, &peer.endpoint);
  peer.failure = UcxStatus(ucx_, status, "no connection");
  if (!peer.failure.ok()) peer.endpoint = nullptr;
}

// After a failure; the next message tries anew.
void UcxEndpoints::CloseEndpoint(Peer& peer) {
  peer.failure = absl::OkStatus();
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
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
  bool expired = false;
  while (!peer.queue.empty() && now >= peer.queue.front()->deadline_nanos) {
    std::unique_ptr<Message> message = std::move(peer.queue.front());
    peer.queue.pop_front();
    Release(std::move(message), status());
    expired = true;
  }
  if (!expired) return;
  // A part of the message may lie in the lane, so that goes; the peer shows that it takes messages
  // again by answering for a new one.
  if (peer.way == Peer::Way::kLane) {
    peer.writer.reset();
    AskForLane(peer);
  }
  peer.overdue = peer.way == Peer::Way::kAsked;
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
    if (!peer->queue.empty() || !peer->controls.empty() || !peer->in_flight.empty() ||
        peer->closing != nullptr || !peer->failure.ok() || peer->way == Peer::Way::kAsked) {
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

// True when a descriptor tells of everything that may happen.
bool UcxEndpoints::ArmAll() {
  descriptors_.assign(1, {wake_fd_, POLLIN, 0});
  bool armed = ucx_.ucp_worker_arm(worker_->handle()) == UCS_OK;
  descriptors_.push_back({worker_->event_fd(), POLLIN, 0});
  for (const std::shared_ptr<Peer>& peer : reading_) {
    armed &= peer->reader->Arm();
    descriptors_.push_back({peer->reader->event_fd(), POLLIN, 0});
  }
  for (const std::shared_ptr<Peer>& peer : active_) {
    armed &= peer->way != Peer::Way::kLane || peer->queue.empty();
  }
  return armed;
}

void UcxEndpoints::Wait() {
  timespec pause{};
  timespec* timeout = nullptr;
  if (ArmAll()) {
    fruitless_looks_ = 0;
    if (!active_.empty()) {
      pause.tv_nsec = kDeadlineCheckMillis * 1'000'000;
      timeout = &pause;
    }
  } else {
    // Something has happened since the last look, or a lane is full or has a place half written.
    const int looks = ++fruitless_looks_;
    if (looks < kLooksBeforePause) return;
    const int doublings = std::min(looks - kLooksBeforePause, 10);
    pause.tv_nsec = std::min(kShortestPauseNanos << doublings, kLongestPauseNanos);
    timeout = &pause;
    descriptors_.resize(1);
  }
  if (ppoll(descriptors_.data(), descriptors_.size(), timeout, nullptr) > 0 &&
      descriptors_[0].revents != 0) {
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
    queue.swap(peer->controls);
    for (std::unique_ptr<Message>& message : queue) Release(std::move(message), cancelled);
  }
  {
    std::lock_guard lock(mutex_);
    for (const auto& [address, peer] : peers_) {
      peer->writer.reset();
      peer->reader.reset();
    }
  }
  reading_.clear();
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
