// Reservations, leases and transfers between a prefill and a decode node.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/cluster/error_details.h"
#include "runtime/node/node_loop_test_fixture.h"

namespace headway {
namespace {

using ::testing::HasSubstr;

TEST_F(NodeLoopTest, AReservationMayBeNamedByWhoAsks) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant, again;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .reservation_id = 4711, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok()) << grant.Wait().status();
  EXPECT_EQ(grant.Wait()->reservation_id, 4711u);
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .reservation_id = 4711, .done = again.Callback()});
  EXPECT_EQ(again.Wait().status().code(), absl::StatusCode::kAlreadyExists);
  decode->loop().Release(4711, grant.Wait()->epoch + 1);
  EXPECT_EQ(LoadOf(decode->loop()).reservations, 1);
  // Who got no answer knows no epoch.
  decode->loop().Release(4711, 0);
  WaitIdle(decode->loop());
}

TEST_F(NodeLoopTest, AReservationEndsWithItsLease) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  EXPECT_EQ(grant.Wait()->lease_ms, 1000);
  EXPECT_EQ(LoadOf(decode->loop()).reservations, 1);
  clock_.AdvanceSeconds(1.1);
  WaitIdle(decode->loop());
  RecordingSink sink;
  decode->loop().Decode(
      {.prompt = sequences_[0],
       .sampling = Greedy(4),
       .manifest = {.reservation_id = grant.Wait()->reservation_id, .epoch = grant.Wait()->epoch},
       .sink = &sink});
  EXPECT_EQ(sink.Wait().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CauseOf(sink.Wait()), FailureCause::kReservationLost);
}

TEST_F(NodeLoopTest, DecodingStartsOnlyOnTheSealedManifest) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  auto decode_with = [&](std::function<void(Manifest&)> change,
                         std::optional<int32_t> first_token = {}) {
    Answer<ReservationGrant> grant;
    decode->loop().Reserve(
        {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
    Answer<PrefillResult> prefilled;
    prefill->loop().Prefill({.prompt = sequences_[0],
                             .sampling = Greedy(4),
                             .target = *grant.Wait(),
                             .done = prefilled.Callback()});
    EXPECT_TRUE(prefilled.Wait().ok()) << prefilled.Wait().status();
    Manifest manifest = prefilled.Wait()->manifest;
    change(manifest);
    RecordingSink sink;
    decode->loop().Decode({.prompt = sequences_[0],
                           .first_token = first_token.value_or(prefilled.Wait()->first.token),
                           .sampling = Greedy(4),
                           .manifest = manifest,
                           .sink = &sink});
    absl::Status status = sink.Wait();
    decode->loop().Release(manifest.reservation_id, grant.Wait()->epoch);
    return status;
  };
  EXPECT_TRUE(decode_with([](Manifest&) {}).ok());
  EXPECT_EQ(decode_with([](Manifest& m) { m.ranks[1].digest ^= 1; }).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(decode_with([](Manifest& m) { --m.ranks[0].runs; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_with([](Manifest& m) { ++m.ranks[1].runs; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_with([](Manifest& m) { m.ranks[1] = {}; }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decode_with([](Manifest& m) { ++m.epoch; }).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(decode_with([](Manifest& m) { m.ranks.pop_back(); }).code(),
            absl::StatusCode::kInvalidArgument);
  for (const int32_t token : {-1, 163}) {
    const absl::Status status = decode_with([](Manifest&) {}, token);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("first token is ", token, "; the vocabulary has 163")));
  }
  EXPECT_TRUE(decode_with([](Manifest&) {}, 162).ok());
  WaitIdle(decode->loop());
  WaitIdle(prefill->loop());
  EXPECT_EQ(decode->loop().load().kv_messages_refused, 0);
}

TEST_F(NodeLoopTest, ATransferIsAFunctionOfThePrompt) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  // The rest of the last block is nobody's: not what earlier sequences left there.
  const std::vector<int32_t> prompt(sequences_[0].begin(), sequences_[0].begin() + 20);
  std::optional<Manifest> first;
  for (int i = 0; i < 3; ++i) {
    const Generated generated = Disaggregated(prefill->loop(), decode->loop(), prompt, Greedy(3));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    if (!first) first = generated.prefill.manifest;
    EXPECT_EQ(generated.prefill.manifest.ranks, first->ranks);
    const Generated other =
        Disaggregated(prefill->loop(), decode->loop(), sequences_[1 + i % 2], Greedy(3));
    ASSERT_TRUE(other.status.ok()) << other.status;
    WaitIdle(prefill->loop());
  }
}

TEST_F(NodeLoopTest, DecodingStartsByItselfWhenTheKvComesAfterTheCall) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 2);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 2);
  const Generated before = Disaggregated(prefill->loop(), decode->loop(), sequences_[0], Greedy(5));
  ASSERT_TRUE(before.status.ok()) << before.status;
  Answer<ReservationGrant> grant;
  decode->loop().Reserve({.prompt_tokens = static_cast<int>(sequences_[0].size()),
                          .max_tokens = 5,
                          .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok()) << grant.Wait().status();
  RecordingSink sink;
  decode->loop().Decode({.prompt = sequences_[0],
                         .first_token = before.tokens[0],
                         .sampling = Greedy(5),
                         .manifest = {.reservation_id = grant.Wait()->reservation_id,
                                      .epoch = grant.Wait()->epoch,
                                      .ranks = before.prefill.manifest.ranks},
                         .sink = &sink});
  Answer<PrefillResult> prefilled;
  prefill->loop().Prefill({.prompt = sequences_[0],
                           .sampling = Greedy(5),
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  // Nothing else is asked of the decode node.
  EXPECT_TRUE(sink.Wait().ok()) << sink.Wait();
  EXPECT_THAT(sink.tokens(),
              testing::ElementsAreArray(before.tokens.begin() + 1, before.tokens.end()));
  EXPECT_TRUE(prefilled.Wait().ok());
  WaitIdle(prefill->loop());
  WaitIdle(decode->loop());
}

TEST_F(NodeLoopTest, ANameWaitsOnce) {
  LocalGroupOptions options = Options(NodeRole::kDecode, 1);
  options.engine.kv_blocks = 4;
  std::unique_ptr<LocalGroup> decode = Start(options);
  auto reserve = [&](uint64_t name, Answer<ReservationGrant>& grant) {
    decode->loop().Reserve(
        {.prompt_tokens = 60, .max_tokens = 4, .reservation_id = name, .done = grant.Callback()});
  };
  Answer<ReservationGrant> held, waiting, twice;
  reserve(7, held);
  ASSERT_TRUE(held.Wait().ok()) << held.Wait().status();
  reserve(9, waiting);
  reserve(9, twice);
  EXPECT_EQ(twice.Wait().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(LoadOf(decode->loop()).waiting, 1);
  EXPECT_EQ(LoadOf(decode->loop()).waiting_blocks, 4);
  // One that waits may be given back too.
  decode->loop().Release(9, 0);
  EXPECT_EQ(waiting.Wait().status().code(), absl::StatusCode::kCancelled);
  decode->loop().Release(7, 0);
  WaitIdle(decode->loop());
}

TEST_F(NodeLoopTest, ATransferThatNeverComesEndsWithTheLease) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  const int64_t runs = int64_t{decode->leader_engine().config().layers} * 3 * 3;
  RecordingSink sink;
  decode->loop().Decode({.prompt = sequences_[0],
                         .sampling = Greedy(4),
                         .manifest = {.reservation_id = grant.Wait()->reservation_id,
                                      .epoch = grant.Wait()->epoch,
                                      .ranks = {{.runs = runs, .digest = 1}}},
                         .sink = &sink});
  EXPECT_EQ(LoadOf(decode->loop()).reservations, 1);
  clock_.AdvanceSeconds(1.1);
  EXPECT_EQ(CauseOf(sink.Wait()), FailureCause::kReservationLost) << sink.Wait();
  WaitIdle(decode->loop());
}

TEST_F(NodeLoopTest, ARenewedReservationLivesOn) {
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  const auto renew = [](NodeLoop& loop, uint64_t id, uint64_t epoch, int64_t lease_ms) {
    Answer<int64_t> answer;
    loop.Renew(
        {.reservation_id = id, .epoch = epoch, .lease_ms = lease_ms, .done = answer.Callback()});
    return answer.Wait();
  };
  Answer<ReservationGrant> grant;
  decode->loop().Reserve(
      {.prompt_tokens = 37, .max_tokens = 4, .lease_ms = 1000, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  const uint64_t id = grant.Wait()->reservation_id, epoch = grant.Wait()->epoch;
  for (int i = 0; i < 3; ++i) {
    clock_.AdvanceSeconds(0.9);
    EXPECT_EQ(renew(decode->loop(), id, epoch, 1000).value_or(-1), 1000);
  }
  EXPECT_EQ(renew(decode->loop(), id, epoch, 1'000'000).value_or(-1), 120'000) << "the upper limit";
  EXPECT_EQ(renew(decode->loop(), id, epoch, 1000).value_or(-1), 1000);
  // Another start's reservation of that name is not this one.
  const absl::Status stale = renew(decode->loop(), id, epoch + 1, 1000).status();
  EXPECT_TRUE(absl::IsNotFound(stale)) << stale;
  EXPECT_EQ(CauseOf(stale), FailureCause::kReservationLost);
  clock_.AdvanceSeconds(1.1);
  WaitIdle(decode->loop());
  const absl::Status late = renew(decode->loop(), id, epoch, 1000).status();
  EXPECT_EQ(CauseOf(late), FailureCause::kReservationLost) << late;
}

TEST_F(NodeLoopTest, APrefillEndsWithItsLeaseUnlessThatIsRenewed) {
  Gate gate;
  LocalGroupOptions options = Options(NodeRole::kPrefill, 2);
  options.wrap_communicator = [&](std::unique_ptr<Communicator> real) {
    return std::make_unique<GatedCommunicator>(std::move(real), gate);
  };
  for (bool renewed : {true, false}) {
    SCOPED_TRACE(renewed);
    std::unique_ptr<LocalGroup> prefill = Start(options);
    std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
    Answer<ReservationGrant> grant;
    decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = grant.Callback()});
    ASSERT_TRUE(grant.Wait().ok());
    ReservationGrant target = *grant.Wait();
    target.lease_ms = 1000;
    gate.Shut();
    Answer<PrefillResult> prefilled;
    prefill->loop().Prefill({.prompt = sequences_[0],
                             .sampling = Greedy(4),
                             .target = target,
                             .done = prefilled.Callback()});
    gate.WaitForSomebody();
    clock_.AdvanceSeconds(1.1);
    Answer<int64_t> renewal;
    if (renewed) {
      // Heard after the step, and still in time.
      prefill->loop().Renew({.reservation_id = target.reservation_id,
                             .epoch = target.epoch,
                             .lease_ms = 1000,
                             .done = renewal.Callback()});
    }
    gate.Open();
    const absl::Status status = prefilled.Wait().status();
    if (renewed) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(renewal.Wait().ok()) << renewal.Wait().status();
    } else {
      EXPECT_EQ(CauseOf(status), FailureCause::kReservationLost) << status;
    }
    WaitIdle(prefill->loop());
  }
}

TEST_F(NodeLoopTest, AFailedTransferBlamesTheDecodeNode) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  decode.reset();
  Answer<PrefillResult> prefilled;
  prefill->loop().Prefill({.prompt = sequences_[0],
                           .sampling = Greedy(4),
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  const absl::Status status = prefilled.Wait().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(CauseOf(status), FailureCause::kTargetUnreachable) << status;
  EXPECT_TRUE(prefill->loop().health().ok());
  WaitIdle(prefill->loop());
}

// Holds each step from some on until a message has been refused.
class RefusedSends {
 public:
  void Refuse(const Transport::Done& done) {
    done(absl::UnavailableError("the peer is gone"));
    std::lock_guard lock(mutex_);
    refused_ = true;
    changed_.notify_all();
  }
  void OnStep() {
    std::unique_lock lock(mutex_);
    if (++steps_ > kFreeSteps) changed_.wait(lock, [this] { return refused_; });
  }
  static constexpr int kFreeSteps = 20;  // a block is whole by then

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool refused_ = false;
  int steps_ = 0;
};

class RefusingTransport : public Transport {
 public:
  RefusingTransport(std::unique_ptr<Transport> inner, RefusedSends& refused)
      : inner_(std::move(inner)), refused_(refused) {}
  std::string address() const override { return inner_->address(); }
  void SetReceiver(Receiver receiver) override { inner_->SetReceiver(std::move(receiver)); }
  void SendPieces(const std::string&, std::span<const std::byte>,
                  std::span<const std::span<const std::byte>>, Done done) override {
    refused_.Refuse(done);
  }

 private:
  const std::unique_ptr<Transport> inner_;
  RefusedSends& refused_;
};

class SteppedCommunicator : public CommunicatorDecorator {
 public:
  SteppedCommunicator(std::unique_ptr<Communicator> real, RefusedSends& refused)
      : CommunicatorDecorator(std::move(real)), refused_(refused) {}
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override {
    if (rank() == root) refused_.OnStep();
    return CommunicatorDecorator::Broadcast(root, bytes);
  }

 private:
  RefusedSends& refused_;
};

TEST_F(NodeLoopTest, APromptWhoseKvGetsNowhereIsNotComputedToItsEnd) {
  constexpr int kPrompt = 90;
  RefusedSends refused;
  LocalGroupOptions options = Options(NodeRole::kPrefill, 2);
  options.node.max_chunk = 1;
  options.new_transport = [&](int) {
    return std::make_unique<RefusingTransport>(hub_.Create(), refused);
  };
  options.wrap_communicator = [&](std::unique_ptr<Communicator> real) {
    return std::make_unique<SteppedCommunicator>(std::move(real), refused);
  };
  std::unique_ptr<LocalGroup> prefill = Start(options);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve({.prompt_tokens = kPrompt, .max_tokens = 4, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  Answer<PrefillResult> prefilled;
  prefill->loop().Prefill({.prompt = std::vector<int32_t>(kPrompt, 3),
                           .sampling = Greedy(4),
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  const absl::Status status = prefilled.Wait().status();
  EXPECT_EQ(CauseOf(status), FailureCause::kTargetUnreachable) << status;
  WaitIdle(prefill->loop());
  EXPECT_LE(LoadOf(prefill->loop()).kv_projections, RefusedSends::kFreeSteps + 1);
}

TEST_F(NodeLoopTest, ADrainingNodeTakesUpWhatItReservedAndNothingNew) {
  std::unique_ptr<LocalGroup> prefill = Start(NodeRole::kPrefill, 1);
  std::unique_ptr<LocalGroup> decode = Start(NodeRole::kDecode, 1);
  Answer<ReservationGrant> grant;
  decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = grant.Callback()});
  ASSERT_TRUE(grant.Wait().ok());
  EXPECT_FALSE(decode->loop().Drain(0)) << "something is reserved";
  EXPECT_TRUE(absl::IsUnavailable(decode->loop().health()));
  Answer<ReservationGrant> refused;
  decode->loop().Reserve({.prompt_tokens = 37, .max_tokens = 4, .done = refused.Callback()});
  EXPECT_TRUE(absl::IsUnavailable(refused.Wait().status())) << refused.Wait().status();

  Answer<PrefillResult> prefilled;
  prefill->loop().Prefill({.prompt = sequences_[0],
                           .sampling = Greedy(4),
                           .target = *grant.Wait(),
                           .done = prefilled.Callback()});
  ASSERT_TRUE(prefilled.Wait().ok()) << prefilled.Wait().status();
  RecordingSink sink;
  decode->loop().Decode({.prompt = sequences_[0],
                         .first_token = prefilled.Wait()->first.token,
                         .sampling = Greedy(4),
                         .manifest = prefilled.Wait()->manifest,
                         .sink = &sink});
  EXPECT_TRUE(decode->loop().Drain(60));
  EXPECT_TRUE(sink.Wait().ok());
  EXPECT_EQ(sink.events().size(), 3u);
  EXPECT_TRUE(prefill->loop().Drain(60));
  Answer<ScoreResult> score;
  prefill->loop().Score({.ids = {1, 2}, .done = score.Callback()});
  EXPECT_TRUE(absl::IsUnavailable(score.Wait().status()));
}

}  // namespace
}  // namespace headway
