#include "runtime/router/leased_prefill.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/cluster/error_details.h"

namespace headway {
namespace {

// What the answers of the calls in flight meet in. Their callbacks refer to it: it outlives them.
struct Answers {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<absl::StatusOr<v1::PrefillReply>> prefilled;
  int renewals = 0;   // in flight
  absl::Status lost;  // why, by the decode node, the reservation is of no use any more
};

}  // namespace

LeasedPrefill PrefillUnderLease(CallScope& scope, NodeClient& prefill, NodeClient& decode,
                                const v1::PrefillRequest& request, uint32_t lease_ms) {
  CallScope calls(scope);
  Answers answers;
  v1::RenewRequest renewal;
  renewal.set_reservation_id(request.target().reservation_id());
  renewal.set_epoch(request.target().epoch());
  renewal.set_lease_ms(lease_ms);
  const auto third = std::chrono::milliseconds(std::max<uint32_t>(1, lease_ms / 3));
  auto next = std::chrono::steady_clock::now() + third;

  prefill.PrefillAsync(calls, request, [&answers](absl::StatusOr<v1::PrefillReply> reply) {
    std::lock_guard lock(answers.mutex);
    answers.prefilled = std::move(reply);
    answers.changed.notify_all();
  });
  const auto on_decode = [&answers](const absl::StatusOr<v1::RenewReply>& renewed) {
    std::lock_guard lock(answers.mutex);
    if (absl::IsUnavailable(renewed.status()) ||
        CauseOf(renewed.status()) == FailureCause::kReservationLost) {
      answers.lost = renewed.status();
    }
    --answers.renewals;
    answers.changed.notify_all();
  };
  // A prefill node that does not know the reservation has ended the prefill, and answers that.
  const auto on_prefill = [&answers](const absl::StatusOr<v1::RenewReply>&) {
    std::lock_guard lock(answers.mutex);
    --answers.renewals;
    answers.changed.notify_all();
  };

  std::unique_lock lock(answers.mutex);
  const auto over = [&answers] { return answers.prefilled || !answers.lost.ok(); };
  while (!answers.changed.wait_until(lock, next, over)) {
    next = std::chrono::steady_clock::now() + third;
    if (answers.renewals > 0) continue;
    answers.renewals = 2;
    lock.unlock();
    decode.RenewAsync(calls, renewal, on_decode);
    prefill.RenewAsync(calls, renewal, on_prefill);
    lock.lock();
  }
  lock.unlock();
  calls.Cancel();
  lock.lock();
  answers.changed.wait(lock, [&] { return answers.prefilled && answers.renewals == 0; });
  // A prompt that was pushed before the reservation was lost helps nobody.
  if (!answers.lost.ok()) return {.reply = answers.lost, .decode_failed = true};
  return {.reply = *std::move(answers.prefilled)};
}

}  // namespace headway
