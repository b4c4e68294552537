#include "runtime/transfer/local_transport.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace headway {
namespace {

class Mailbox;

// How often a transport with messages under way looks at its clock, which a test may move by hand.
constexpr std::chrono::milliseconds kDeadlineCheck(2);

struct Arrival {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
  std::weak_ptr<Mailbox> sender;
  uint64_t message = 0;  // the sender's number
};

struct Completion {
  uint64_t message = 0;
  absl::Status status;
};

// Where a transport's thread finds its work; others hold it while they put something in.
class Mailbox {
 public:
  // False when the transport is gone.
  bool Put(Arrival arrival) {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    arrivals_.push_back(std::move(arrival));
    changed_.notify_one();
    return true;
  }

  void Put(Completion completion) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    completions_.push_back(std::move(completion));
    changed_.notify_one();
  }

  struct Work {
    std::deque<Arrival> arrivals;
    std::deque<Completion> completions;
    bool closed = false;
  };

  // Waits for work, or, if `watching`, for the time of the next look at the clock.
  Work Take(bool watching) {
    std::unique_lock lock(mutex_);
    auto ready = [&] { return closed_ || !arrivals_.empty() || !completions_.empty(); };
    if (watching) {
      changed_.wait_for(lock, kDeadlineCheck, ready);
    } else {
      changed_.wait(lock, ready);
    }
    return {std::exchange(arrivals_, {}), std::exchange(completions_, {}), closed_};
  }

  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }

  // Wakes the thread so that it starts to watch the clock.
  void Nudge() { Put(Completion{}); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Arrival> arrivals_;
  std::deque<Completion> completions_;
  bool closed_ = false;
};

}  // namespace

class LocalTransportHub::Registry {
 public:
  std::string Add(std::shared_ptr<Mailbox> mailbox) {
    std::lock_guard lock(mutex_);
    std::string address = absl::StrCat("local:", next_++);
    mailboxes_[address] = std::move(mailbox);
    return address;
  }

  void Remove(const std::string& address) {
    std::lock_guard lock(mutex_);
    mailboxes_.erase(address);
  }

  absl::Status Find(const std::string& address, std::shared_ptr<Mailbox>& mailbox) {
    std::lock_guard lock(mutex_);
    const auto found = mailboxes_.find(address);
    if (found == mailboxes_.end()) {
      return absl::UnavailableError(absl::StrCat("send: no transport at ", address));
    }
    mailbox = found->second;
    return absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  uint64_t next_ = 1;
  std::unordered_map<std::string, std::shared_ptr<Mailbox>> mailboxes_;
};

namespace {

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalTransportHub::Registry> registry,
                 const TransportLimits& limits, const Clock& clock)
      : registry_(std::move(registry)),
        limits_(limits),
        clock_(clock),
        mailbox_(std::make_shared<Mailbox>()),
        address_(registry_->Add(mailbox_)),
        thread_([this] { Run(); }) {}

  ~LocalTransport() override {
    registry_->Remove(address_);
    mailbox_->Close();
    thread_.join();
  }

  std::string address() const override { return address_; }

  void SetReceiver(Receiver receiver) override {
    std::lock_guard lock(receiver_mutex_);
    receiver_ = std::move(receiver);
  }

  void SendPieces(const std::string& peer_address, std::span<const std::byte> header,
                  std::span<const std::span<const std::byte>> pieces, Done done) override {
    Arrival arrival = {.header = {header.begin(), header.end()}, .sender = mailbox_};
    for (std::span<const std::byte> piece : pieces) {
      if (arrival.payload.size() + piece.size() > kMaxPayloadBytes) break;
      arrival.payload.insert(arrival.payload.end(), piece.begin(), piece.end());
    }
    std::shared_ptr<Mailbox> peer;
    if (absl::Status status = Accept(peer_address, pieces, done, arrival, peer); !status.ok()) {
      done(status);
      return;
    }
    mailbox_->Nudge();
    const uint64_t message = arrival.message;
    if (!peer->Put(std::move(arrival))) {
      mailbox_->Put(Completion{
          message, absl::UnavailableError(absl::StrCat("send: no transport at ", peer_address))});
    }
  }

 private:
  struct Peer {
    int64_t pending_bytes = 0;
    int late = 0;  // messages past their deadline that the peer has not taken
  };
  struct Pending {
    std::string peer;
    Done done;  // null once called
    int64_t bytes = 0;
    int64_t deadline_nanos = 0;
  };

  // Checks the message and numbers it; `done` is taken over when OK.
  absl::Status Accept(const std::string& address,
                      std::span<const std::span<const std::byte>> pieces, Done& done,
                      Arrival& arrival, std::shared_ptr<Mailbox>& peer_mailbox) {
    int64_t bytes = 0;
    for (std::span<const std::byte> piece : pieces) bytes += static_cast<int64_t>(piece.size());
    if (arrival.header.size() > kMaxHeaderBytes || bytes > static_cast<int64_t>(kMaxPayloadBytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "send: header of ", arrival.header.size(), " and payload of ", bytes, " bytes; at most ",
          kMaxHeaderBytes, " and ", kMaxPayloadBytes, " are allowed"));
    }
    if (!address.starts_with("local:")) {
      return absl::InvalidArgumentError("send: not an address of a local transport");
    }
    if (absl::Status status = registry_->Find(address, peer_mailbox); !status.ok()) return status;
    std::lock_guard lock(mutex_);
    if (closing_) return absl::CancelledError("send: the transport is being closed");
    Peer& peer = peers_[address];
    if (peer.late > 0) {
      return absl::UnavailableError(
          absl::StrCat("send: ", address, " has not taken earlier messages in time"));
    }
    if (peer.pending_bytes + bytes > limits_.max_pending_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("send: ", peer.pending_bytes, " + ", bytes,
                                                       " bytes are pending to ", address,
                                                       "; at most ", limits_.max_pending_bytes));
    }
    peer.pending_bytes += bytes;
    arrival.message = next_message_++;
    pending_[arrival.message] = {address, std::move(done), bytes,
                                 clock_.NowNanos() + limits_.send_timeout_nanos};
    return absl::OkStatus();
  }

  void Run() {
    for (;;) {
      bool watching;
      {
        std::lock_guard lock(mutex_);
        watching = !pending_.empty();
      }
      Mailbox::Work work = mailbox_->Take(watching);
      for (const Completion& completion : work.completions) Complete(completion);
      for (const Arrival& arrival : work.arrivals) {
        absl::Status status;
        if (work.closed) {
          status = absl::UnavailableError(absl::StrCat("send: ", address_, " is closing"));
        } else {
          std::lock_guard lock(receiver_mutex_);
          if (receiver_) receiver_(arrival.header, arrival.payload);
        }
        if (auto sender = arrival.sender.lock()) sender->Put(Completion{arrival.message, status});
      }
      if (work.closed) break;
      ExpireDeadlines();
    }
    std::map<uint64_t, Pending> unsent;
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
      unsent.swap(pending_);
    }
    for (auto& [message, pending] : unsent) {
      if (pending.done) pending.done(absl::CancelledError("send: the transport was closed"));
    }
  }

  void Complete(const Completion& completion) {
    Done done;
    {
      std::lock_guard lock(mutex_);
      const auto found = pending_.find(completion.message);
      if (found == pending_.end()) return;
      Peer& peer = peers_[found->second.peer];
      peer.pending_bytes -= found->second.bytes;
      if (!found->second.done) --peer.late;
      done = std::move(found->second.done);
      pending_.erase(found);
    }
    if (done) done(completion.status);
  }

  void ExpireDeadlines() {
    std::vector<Done> late;
    {
      std::lock_guard lock(mutex_);
      const int64_t now = clock_.NowNanos();
      for (auto& [message, pending] : pending_) {
        if (!pending.done || now < pending.deadline_nanos) continue;
        ++peers_[pending.peer].late;
        late.push_back(std::exchange(pending.done, nullptr));
      }
    }
    for (const Done& done : late) {
      done(
          absl::DeadlineExceededError(absl::StrCat("send: the peer has not taken the message in ",
                                                   limits_.send_timeout_nanos / 1'000'000, " ms")));
    }
  }

  const std::shared_ptr<LocalTransportHub::Registry> registry_;
  const TransportLimits limits_;
  const Clock& clock_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::string address_;

  std::mutex receiver_mutex_;  // held during a call
  Receiver receiver_;

  std::mutex mutex_;
  bool closing_ = false;
  uint64_t next_message_ = 1;
  std::map<uint64_t, Pending> pending_;
  std::unordered_map<std::string, Peer> peers_;

  std::thread thread_;
};

}  // namespace

LocalTransportHub::LocalTransportHub() : registry_(std::make_shared<Registry>()) {}
LocalTransportHub::~LocalTransportHub() = default;

std::unique_ptr<Transport> LocalTransportHub::Create(const TransportLimits& limits,
                                                     const Clock& clock) {
  return std::make_unique<LocalTransport>(registry_, limits, clock);
}

}  // namespace headway
