// What every transport promises, for each form and for the ways that UCX can take.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/transfer/local_transport.h"
#include "runtime/transfer/transport.h"
#include "runtime/transfer/ucx_transport.h"

namespace headway {
namespace {

using std::chrono::seconds;
using testing::AnyOf;
using testing::Each;
using testing::Eq;

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Pattern(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random();
    std::memcpy(text.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return text;
}

// Counts what callbacks report and waits for it.
class Waiter {
 public:
  void Add(int n = 1) {
    std::lock_guard lock(mutex_);
    count_ += n;
    changed_.notify_all();
  }
  // False when `n` are not there within a time that only a hang exceeds.
  bool Until(int n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(30), [&] { return count_ >= n; });
  }
  int count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// Statuses of messages, in the order of their ends.
class Dones {
 public:
  Transport::Done Next() {
    return [this](const absl::Status& status) {
      {
        std::lock_guard lock(mutex_);
        codes_.push_back(status.code());
        last_ = status;
      }
      waiter_.Add();
    };
  }
  bool Until(int n) { return waiter_.Until(n); }
  std::vector<absl::StatusCode> codes() {
    std::lock_guard lock(mutex_);
    return codes_;
  }
  absl::Status last() {
    std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  Waiter waiter_;
  std::mutex mutex_;
  std::vector<absl::StatusCode> codes_;
  absl::Status last_;
};

// Keeps whoever calls its receiver until it is opened, or destroyed at the latest.
class Gate {
 public:
  Transport::Receiver Receiver() {
    return [state = state_](std::span<const std::byte>, std::span<const std::byte>) {
      std::unique_lock lock(state->mutex);
      state->entered = true;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return state->open; });
    };
  }
  void Open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  bool UntilEntered() {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, seconds(30), [&] { return state_->entered; });
  }
  ~Gate() { Open(); }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool entered = false;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Form {
  std::string name;
  std::string ucx_transports;  // empty: local
  std::string host_transport = "";
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class TransportTest : public testing::TestWithParam<Form> {
 protected:
  std::unique_ptr<Transport> Create(const TransportLimits& limits = {},
                                    const Clock& clock = Clock::Real()) {
    if (GetParam().ucx_transports.empty()) return hub_.Create(limits, clock);
    absl::StatusOr<std::unique_ptr<Transport>> transport =
        UcxTransport::Create({.limits = limits,
                              .transports = GetParam().ucx_transports,
                              .host_transport = GetParam().host_transport,
                              .net_devices = "lo",
                              .close_grace_nanos = 100'000'000},
                             clock);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  }

  LocalTransportHub hub_;
};

TEST_P(TransportTest, MessagesOfEverySizeArriveWholeAndInOrder) {
  const std::vector<size_t> sizes = {
      0,    1,    2,     63,     64,    65,     255,           4095,   4096,   4097,
      8191, 8192, 8193,  8256,   16385, 65535,  100001,        262144, 262145, 1048577,
      0,    7,    33333, 999999, 3,     524287, (4 << 20) - 1, 4 << 20};
  std::vector<std::string> headers, payloads;
  Waiter arrived;
  auto a = Create(), b = Create();
  b->SetReceiver([&](std::span<const std::byte> header, std::span<const std::byte> payload) {
    headers.push_back(Text(header));
    payloads.push_back(Text(payload));
    arrived.Add();
  });
  Dones dones;
  for (size_t i = 0; i < sizes.size(); ++i) {
    a->Send(b->address(), Bytes(Pattern(i * 97 % 4097, 1000 + i)), Bytes(Pattern(sizes[i], i)),
            dones.Next());
  }
  ASSERT_TRUE(arrived.Until(sizes.size()));
  ASSERT_TRUE(dones.Until(sizes.size()));
  EXPECT_THAT(dones.codes(), Each(Eq(absl::StatusCode::kOk)));
  b->SetReceiver({});
  ASSERT_EQ(payloads.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(payloads[i] == Pattern(sizes[i], i)) << "message " << i << " of " << sizes[i];
    EXPECT_TRUE(headers[i] == Pattern(i * 97 % 4097, 1000 + i)) << "message " << i;
  }
}

TEST_P(TransportTest, PiecesAreJoinedAndCopied) {
  std::string got;
  Waiter arrived;
  auto a = Create(), b = Create();
  b->SetReceiver([&](std::span<const std::byte>, std::span<const std::byte> payload) {
    got = Text(payload);
    arrived.Add();
  });
  std::string header = "h", one = Pattern(5000, 1), two = "", three = Pattern(100000, 3);
  const std::string whole = one + two + three;
  const std::span<const std::byte> pieces[] = {Bytes(one), Bytes(two), Bytes(three)};
  a->SendPieces(b->address(), Bytes(header), pieces, [](const absl::Status&) {});
  std::fill(header.begin(), header.end(), 'x');
  std::fill(one.begin(), one.end(), 'x');
  std::fill(three.begin(), three.end(), 'x');
  ASSERT_TRUE(arrived.Until(1));
  EXPECT_TRUE(got == whole);
}

TEST_P(TransportTest, ManyPeersInAllDirectionsAtOnce) {
  constexpr int kPeers = 4, kMessages = 60;
  struct Seen {
    std::vector<int> next = std::vector<int>(kPeers, 0);  // of each sender
    bool ordered = true, whole = true;
  };
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Seen> seen(kPeers);
  Waiter arrived;
  for (int i = 0; i < kPeers; ++i) {
    transports.push_back(Create());
    transports[i]->SetReceiver([&, i](std::span<const std::byte> header,
                                      std::span<const std::byte> payload) {
      int from[2];
      std::memcpy(from, header.data(), sizeof(from));
      seen[i].ordered &= from[1] == seen[i].next[from[0]]++;
      seen[i].whole &= Text(payload) == Pattern(from[1] * 977 % 40000, from[0] * 1000 + from[1]);
      arrived.Add();
    });
  }
  Dones dones;
  for (int message = 0; message < kMessages; ++message) {
    for (int from = 0; from < kPeers; ++from) {
      for (int to = 0; to < kPeers; ++to) {  // itself among them
        const int header[2] = {from, message};
        transports[from]->Send(transports[to]->address(), std::as_bytes(std::span(header)),
                               Bytes(Pattern(message * 977 % 40000, from * 1000 + message)),
                               dones.Next());
      }
    }
  }
  ASSERT_TRUE(arrived.Until(kPeers * kPeers * kMessages));
  ASSERT_TRUE(dones.Until(kPeers * kPeers * kMessages));
  EXPECT_THAT(dones.codes(), Each(Eq(absl::StatusCode::kOk)));
  for (auto& transport : transports) transport->SetReceiver({});
  for (const Seen& one : seen) {
    EXPECT_TRUE(one.ordered);
    EXPECT_TRUE(one.whole);
  }
}

TEST_P(TransportTest, SeveralThreadsMaySend) {
  constexpr int kThreads = 4, kMessages = 100;
  auto a = Create(), b = Create();
  Waiter arrived, done;
  std::atomic<int64_t> bytes = 0;
  b->SetReceiver([&](std::span<const std::byte>, std::span<const std::byte> payload) {
    bytes += payload.size();
    arrived.Add();
  });
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kMessages; ++i) {
        a->Send(b->address(), {}, Bytes(Pattern(t * 1000 + i, 0)),
                [&](const absl::Status& status) { done.Add(status.ok() ? 1 : 0); });
      }
    });
  }
  EXPECT_TRUE(arrived.Until(kThreads * kMessages));
  EXPECT_TRUE(done.Until(kThreads * kMessages));
  EXPECT_EQ(bytes, kMessages * 1000 * 6 + kThreads * kMessages * (kMessages - 1) / 2);
}

TEST_P(TransportTest, LimitsAreChecked) {
  auto a = Create(), b = Create();
  Dones dones;
  a->Send(b->address(), Bytes(std::string(Transport::kMaxHeaderBytes + 1, 'h')), {}, dones.Next());
  const std::string large(Transport::kMaxPayloadBytes / 2 + 1, 'p');
  const std::span<const std::byte> pieces[] = {Bytes(large), Bytes(large)};
  a->SendPieces(b->address(), {}, pieces, dones.Next());
  ASSERT_TRUE(dones.Until(2));
  EXPECT_THAT(dones.codes(), Each(Eq(absl::StatusCode::kInvalidArgument)));
}

TEST_P(TransportTest, GarbageIsNoAddress) {
  auto a = Create(), b = Create();
  std::vector<std::string> addresses = {"", "x", std::string(1000, '\0'), Pattern(300, 7),
                                        b->address().substr(0, b->address().size() / 2)};
  if (!GetParam().ucx_transports.empty()) {
    for (size_t at = 0; at < b->address().size(); at += 5) {
      addresses.push_back(b->address());
      addresses.back()[at] ^= 0x10;
    }
  }
  Dones dones;
  for (const std::string& address : addresses) {
    a->Send(address, Bytes("h"), Bytes("p"), dones.Next());
  }
  ASSERT_TRUE(dones.Until(addresses.size()));
  EXPECT_THAT(dones.codes(),
              Each(AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnavailable)));
}

TEST_P(TransportTest, TheAddressOfADestroyedTransportIsUnavailable) {
  auto a = Create();
  const std::string address = Create()->address();
  Dones dones;
  for (int i = 1; i <= 3; ++i) {
    a->Send(address, Bytes("h"), Bytes(Pattern(100000, 1)), dones.Next());
    ASSERT_TRUE(dones.Until(i));
  }
  EXPECT_THAT(dones.codes(), Each(Eq(absl::StatusCode::kUnavailable)));
}

TEST_P(TransportTest, APeerThatGoesAwayEndsItsMessagesOnly) {
  FakeClock clock;
  auto a = Create({}, clock), lasting = Create();
  Waiter arrived;
  auto count = [&](std::span<const std::byte>, std::span<const std::byte>) { arrived.Add(); };
  lasting->SetReceiver(count);
  Dones dones, others;
  std::string address;
  {
    auto leaving = Create();
    leaving->SetReceiver(count);
    address = leaving->address();
    a->Send(address, Bytes("h"), Bytes("p"), dones.Next());
    ASSERT_TRUE(dones.Until(1));
    ASSERT_TRUE(arrived.Until(1));
  }
  const std::string payload = Pattern(1 << 20, 5);
  for (int i = 0; i < 12; ++i) {
    a->Send(address, Bytes("h"), Bytes(payload), dones.Next());
    a->Send(lasting->address(), Bytes("h"), Bytes(payload), others.Next());
  }
  ASSERT_TRUE(others.Until(12));
  ASSERT_TRUE(arrived.Until(13));
  // Where nothing tells of a peer's end the deadline does.
  clock.AdvanceSeconds(11);
  ASSERT_TRUE(dones.Until(13));
  EXPECT_THAT(others.codes(), Each(Eq(absl::StatusCode::kOk)));
  EXPECT_THAT(dones.last().code(),
              AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded));
}

// Messages that are more than all that lies between two transports can hold.
constexpr int kFlood = 16;
constexpr size_t kFloodBytes = 2 << 20;

// After a flood that timed out: `to`, whose receiver waits at the gate, gets nothing from `from`
// until it answers again.
void ExpectRefusedUntilOpen(Transport& from, Transport& to, Gate& gate, Dones& dones) {
  from.Send(to.address(), Bytes("h"), Bytes("p"), dones.Next());
  ASSERT_TRUE(dones.Until(kFlood + 1));
  EXPECT_EQ(dones.codes().back(), absl::StatusCode::kUnavailable) << dones.last();

  gate.Open();
  const auto give_up = std::chrono::steady_clock::now() + seconds(30);
  for (int sent = kFlood + 2; dones.codes().back() != absl::StatusCode::kOk; ++sent) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << dones.last();
    from.Send(to.address(), Bytes("h"), Bytes("p"), dones.Next());
    ASSERT_TRUE(dones.Until(sent));
  }
}

TEST_P(TransportTest, APeerThatHangsMeetsTheDeadlineAndMayComeBack) {
  FakeClock clock;
  auto a = Create({.send_timeout_nanos = 5'000'000'000}, clock), b = Create();
  Gate gate;
  b->SetReceiver(gate.Receiver());
  const std::string payload = Pattern(kFloodBytes, 1);
  Dones dones;
  for (int i = 0; i < kFlood; ++i) {
    a->Send(b->address(), Bytes("h"), Bytes(payload), dones.Next());
  }
  ASSERT_TRUE(gate.UntilEntered());
  EXPECT_LT(dones.codes().size(), kFlood);
  clock.AdvanceSeconds(5.1);
  ASSERT_TRUE(dones.Until(kFlood));
  EXPECT_THAT(dones.codes(),
              Each(AnyOf(absl::StatusCode::kOk, absl::StatusCode::kDeadlineExceeded)));
  EXPECT_EQ(dones.codes().back(), absl::StatusCode::kDeadlineExceeded);

  ExpectRefusedUntilOpen(*a, *b, gate, dones);
}

TEST_P(TransportTest, APeerThatHangsBeforeTheFirstMessageMayComeBack) {
  FakeClock clock;
  auto a = Create({.send_timeout_nanos = 5'000'000'000}, clock), b = Create(), c = Create();
  Gate gate;
  b->SetReceiver(gate.Receiver());
  Dones dones, others;
  c->Send(b->address(), {}, {}, others.Next());
  ASSERT_TRUE(gate.UntilEntered());
  ASSERT_TRUE(others.Until(1));
  const std::string payload = Pattern(kFloodBytes, 1);
  for (int i = 0; i < kFlood; ++i) {
    a->Send(b->address(), Bytes("h"), Bytes(payload), dones.Next());
  }
  clock.AdvanceSeconds(5.1);
  ASSERT_TRUE(dones.Until(kFlood));
  EXPECT_EQ(dones.codes().back(), absl::StatusCode::kDeadlineExceeded);
  ExpectRefusedUntilOpen(*a, *b, gate, dones);
}

TEST_P(TransportTest, PendingBytesAreBounded) {
  auto a = Create({.max_pending_bytes = 3 << 20}), b = Create(), c = Create();
  Gate gate;
  b->SetReceiver(gate.Receiver());
  const std::string payload = Pattern(kFloodBytes, 1);
  Dones dones, others;
  for (int i = 0; i < kFlood; ++i) {
    a->Send(b->address(), Bytes("h"), Bytes(payload), dones.Next());
  }
  // Those that the network has not taken were refused at once.
  EXPECT_FALSE(dones.codes().empty());
  EXPECT_EQ(dones.codes().back(), absl::StatusCode::kResourceExhausted) << dones.last();
  a->Send(c->address(), Bytes("h"), Bytes(payload), others.Next());
  ASSERT_TRUE(others.Until(1));
  EXPECT_EQ(others.codes().back(), absl::StatusCode::kOk);
  gate.Open();
  ASSERT_TRUE(dones.Until(kFlood));
}

TEST_P(TransportTest, DestroyedWithMessagesUnderWayEachEndsOnce) {
  Dones dones;
  auto b = Create();
  Gate gate;
  b->SetReceiver(gate.Receiver());
  {
    auto a = Create();
    const std::string payload = Pattern(kFloodBytes, 1);
    for (int i = 0; i < kFlood; ++i) {
      a->Send(b->address(), Bytes("h"), Bytes(payload), dones.Next());
    }
    ASSERT_TRUE(gate.UntilEntered());
  }
  EXPECT_EQ(dones.codes().size(), kFlood);
  EXPECT_THAT(dones.codes(), Each(AnyOf(absl::StatusCode::kOk, absl::StatusCode::kCancelled)));
  EXPECT_EQ(dones.codes().back(), absl::StatusCode::kCancelled);
}

TEST_P(TransportTest, ACallbackMaySendAndOneDuringTheEndIsCancelled) {
  Dones dones;
  auto b = Create();
  Gate gate;
  b->SetReceiver(gate.Receiver());
  {
    auto a = Create();
    const std::string payload = Pattern(kFloodBytes, 1);
    for (int i = 0; i < kFlood; ++i) {
      a->Send(b->address(), Bytes("h"), Bytes(payload),
              [&, transport = a.get()](const absl::Status& status) {
                dones.Next()(status);
                transport->Send(b->address(), {}, {}, dones.Next());
              });
    }
    ASSERT_TRUE(gate.UntilEntered());
  }
  EXPECT_EQ(dones.codes().size(), 2 * kFlood);
}

TEST_P(TransportTest, WithoutAReceiverMessagesAreDropped) {
  auto a = Create(), b = Create();
  Waiter before, after;
  Dones dones;
  auto send = [&](int n) {
    a->Send(b->address(), Bytes("h"), Bytes("p"), dones.Next());
    return dones.Until(n);
  };
  b->SetReceiver([&](auto, auto) { before.Add(); });
  ASSERT_TRUE(send(1));
  ASSERT_TRUE(before.Until(1));
  b->SetReceiver({});
  ASSERT_TRUE(send(2));
  EXPECT_THAT(dones.codes(), Each(Eq(absl::StatusCode::kOk)));
  EXPECT_EQ(before.count(), 1);
}

TEST_P(TransportTest, IdleBurnsNoCore) {
  auto a = Create(), b = Create();
  Waiter arrived;
  b->SetReceiver([&](auto, auto) { arrived.Add(); });
  a->SetReceiver([&](auto, auto) { arrived.Add(); });
  const std::string payload = Pattern(300000, 1);
  a->Send(b->address(), {}, Bytes(payload), [](const absl::Status&) {});
  b->Send(a->address(), {}, Bytes(payload), [](const absl::Status&) {});
  ASSERT_TRUE(arrived.Until(2));
  auto cpu_nanos = [] {
    timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1'000'000'000 + used.tv_nsec;
  };
  // Two threads that spin would use 200 ms of it; after the last bytes a little is still to do.
  const int64_t before = cpu_nanos();
  const timespec idle = {0, 100'000'000};
  nanosleep(&idle, nullptr);
  EXPECT_LT(cpu_nanos() - before, 40'000'000);
}

INSTANTIATE_TEST_SUITE_P(Forms, TransportTest,
                         testing::Values(Form{"Local", ""}, Form{"UcxTcp", "tcp,self"},
                                         Form{"UcxPosix", UcxOptions().transports, "posix"},
                                         Form{"UcxSysv", UcxOptions().transports, "sysv"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace headway
