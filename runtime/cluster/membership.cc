#include "runtime/cluster/membership.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/log.h"

namespace headway {
namespace {

NodeRole RoleOf(const v1::NodeInfo& info) {
  switch (info.role()) {
    case v1::NODE_ROLE_PREFILL:
      return NodeRole::kPrefill;
    case v1::NODE_ROLE_DECODE:
      return NodeRole::kDecode;
    default:
      return NodeRole::kMixed;
  }
}

bool RoleKnown(const v1::NodeInfo& info) {
  return info.role() == v1::NODE_ROLE_PREFILL || info.role() == v1::NODE_ROLE_DECODE ||
         info.role() == v1::NODE_ROLE_MIXED;
}

int64_t ToNanos(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

}  // namespace

Membership::Membership(const std::vector<NodeAddress>& addresses, const MembershipOptions& options,
                       const Clock& clock)
    : options_(options), clock_(clock) {
  if (!options.numerics_id.empty()) {
    numerics_id_ = options.numerics_id;
    numerics_from_ = "this router";
  }
  for (const NodeAddress& at : addresses) {
    auto node = std::make_unique<Node>();
    node->at = at;
    node->client = NodeClient::Connect(at.address);
    nodes_.push_back(std::move(node));
  }
}

Membership::~Membership() {
  Stop();
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (auto& node : nodes_) {
    if (node->look) node->look->Cancel();
  }
  changed_.wait(lock, [&] { return looks_in_flight_ == 0; });
}

void Membership::StartRound() {
  for (auto& owned : nodes_) {
    Node& node = *owned;
    std::shared_ptr<CallScope> look;
    bool ask_info = false;
    {
      std::lock_guard lock(mutex_);
      if (stopping_ || node.look) continue;
      look = std::make_shared<CallScope>(CallScope::DeadlineAfter(options_.call_seconds));
      node.look = look;
      ++looks_in_flight_;
      ask_info = !node.info;
    }
    // `look` lives in the callback as well: the answer may come before these return.
    if (ask_info) {
      node.client->GetInfoAsync(*look, [this, &node, look](absl::StatusOr<v1::NodeInfo> info) {
        OnInfo(node, std::move(info));
      });
    } else {
      node.client->GetLoadAsync(*look, [this, &node, look](absl::StatusOr<v1::NodeLoad> load) {
        OnLoad(node, std::move(load));
      });
    }
  }
}

void Membership::OnInfo(Node& node, absl::StatusOr<v1::NodeInfo> info) {
  std::lock_guard lock(mutex_);
  node.answered = true;
  if (info.ok() && !RoleKnown(*info)) {
    info = absl::FailedPreconditionError(
        absl::StrCat("it has a role that this router does not know: ", info->role()));
  }
  if (info.ok()) {
    node.info = *std::move(info);
    node.error = absl::OkStatus();
    node.load = v1::NodeLoad();
    node.load.set_total_blocks(node.info->kv_blocks());
    node.load.set_free_blocks(node.info->kv_blocks());
    node.noted_requests = node.noted_blocks = 0;
  } else {
    node.error = info.status();
  }
  Judge();
  EndLook(node);
}

void Membership::OnLoad(Node& node, absl::StatusOr<v1::NodeLoad> load) {
  std::lock_guard lock(mutex_);
  if (load.ok()) {
    node.load = *std::move(load);
    node.noted_requests = node.noted_blocks = 0;
  } else if (node.info && !stopping_) {
    Drop(node, load.status());
  }
  EndLook(node);
}

void Membership::EndLook(Node& node) {
  node.look.reset();
  --looks_in_flight_;
  changed_.notify_all();
}

// Takes in nodes that have said what they are, in the order of the list, so that which of two
// unequal nodes is refused does not depend on who answered first.
void Membership::Judge() {
  if (numerics_id_.empty()) {
    for (const auto& node : nodes_) {
      if (!node->answered) return;
      if (!node->info || !OfCheckpoint(node->info->numerics_id())) continue;
      numerics_id_ = node->info->numerics_id();
      numerics_from_ = absl::StrCat("node ", node->at.address);
      break;
    }
  }
  for (const auto& node : nodes_) {
    if (!node->info) continue;
    const std::string why = WhyRefused(*node);
    if (!why.empty() && !node->refused) {
      node->error = absl::FailedPreconditionError(absl::StrCat("refused: ", why));
      LogError(absl::StrCat("node ", node->at.address, " ", std::string(node->error.message())));
    }
    if (why.empty() && !node->accepted) {
      LogInfo(absl::StrCat("node ", node->at.address,
                           " serves: ", NodeRoleName(RoleOf(*node->info)), ", degree ",
                           node->info->degree(), ", ", node->info->kv_blocks(), " KV blocks"));
    }
    node->refused = !why.empty();
    node->accepted = why.empty();
  }
}

bool Membership::OfCheckpoint(const std::string& numerics_id) const {
  return absl::StartsWith(numerics_id, options_.checkpoint_id);
}

std::string Membership::WhyRefused(const Node& node) const {
  if (!OfCheckpoint(node.info->numerics_id())) {
    return absl::StrCat("its numerics id is ", node.info->numerics_id(),
                        ", the checkpoint here has the id ", options_.checkpoint_id,
                        "; start both with the same checkpoint");
  }
  if (node.info->numerics_id() != numerics_id_) {
    return absl::StrCat("its numerics id is ", node.info->numerics_id(), ", that of ",
                        numerics_from_, " is ", numerics_id_,
                        "; both must serve the same checkpoint with the same options");
  }
  const NodeRole role = RoleOf(*node.info);
  if (node.at.role && *node.at.role != role) {
    return absl::StrCat("it is a ", NodeRoleName(role), " node, and is listed as a ",
                        NodeRoleName(*node.at.role), " node");
  }
  return "";
}

void Membership::Drop(Node& node, const absl::Status& why) {
  LogWarning(absl::StrCat("node ", node.at.address, " gets no requests until it answers again: ",
                          why.ToString(absl::StatusToStringMode::kWithNoExtraData)));
  node.info.reset();
  node.accepted = false;
  node.error = why;
  node.left_out_until_nanos = clock_.NowNanos() + ToNanos(options_.leave_out_seconds);
  // The blame is settled. Otherwise two decode nodes that fail would take every prefill node that
  // tried them along.
  std::erase_if(unreachable_, [&](const Unreachable& report) {
    return nodes_[report.prefill].get() == &node || nodes_[report.decode].get() == &node;
  });
}

bool Membership::Usable(const Node& node) const {
  return node.accepted && clock_.NowNanos() >= node.left_out_until_nanos;
}

void Membership::Poll() {
  StartRound();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return looks_in_flight_ == 0; });
}

absl::Status Membership::WaitReady(double seconds,
                                   const std::function<void(double seconds)>& wait) {
  const int64_t give_up_nanos = clock_.NowNanos() + ToNanos(seconds);
  while (true) {
    Poll();
    std::vector<std::string> missing;
    {
      std::lock_guard lock(mutex_);
      for (const auto& node : nodes_) {
        if (node->info && node->refused) {
          return absl::FailedPreconditionError(
              absl::StrCat("node ", node->at.address, " ", std::string(node->error.message())));
        }
        if (!Usable(*node)) {
          missing.push_back(absl::StrCat(node->at.address, " (", node->error.ToString(), ")"));
        }
      }
    }
    if (missing.empty()) return absl::OkStatus();
    if (clock_.NowNanos() >= give_up_nanos) {
      return absl::DeadlineExceededError(absl::StrCat(
          "after ", seconds, " s these nodes are not ready: ", absl::StrJoin(missing, ", ")));
    }
    wait(options_.poll_seconds);
  }
}

void Membership::Start(std::function<void(bool serving)> on_change) {
  thread_ = std::thread([this, on_change = std::move(on_change)] {
    std::optional<bool> told;
    std::unique_lock lock(mutex_);
    while (!thread_stopping_) {
      lock.unlock();
      StartRound();
      lock.lock();
      const auto next_round = std::chrono::steady_clock::now() +
                              std::chrono::nanoseconds(ToNanos(options_.poll_seconds));
      // Answers and failures are looked at as they come, not with the next round.
      do {
        const bool serving = ServingLocked();
        if (told != serving) {
          told = serving;
          lock.unlock();
          on_change(serving);
          lock.lock();
        }
      } while (!thread_stopping_ &&
               changed_.wait_until(lock, next_round) != std::cv_status::timeout);
    }
  });
}

void Membership::Stop() {
  {
    std::lock_guard lock(mutex_);
    thread_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<MemberSnapshot> Membership::Snapshot() const {
  std::lock_guard lock(mutex_);
  std::vector<MemberSnapshot> members;
  members.reserve(nodes_.size());
  for (const auto& node : nodes_) {
    MemberSnapshot& member = members.emplace_back();
    member.index = static_cast<int>(members.size()) - 1;
    member.address = node->at.address;
    member.usable = Usable(*node);
    if (!node->info) continue;
    member.role = RoleOf(*node->info);
    member.info = *node->info;
    member.load = node->load;
    member.noted_requests = node->noted_requests;
    member.noted_blocks = node->noted_blocks;
  }
  return members;
}

bool Membership::ServingLocked() const {
  bool prefill = false, decode = false, mixed = false;
  for (const auto& node : nodes_) {
    if (!Usable(*node)) continue;
    const NodeRole role = RoleOf(*node->info);
    prefill |= role == NodeRole::kPrefill;
    decode |= role == NodeRole::kDecode;
    mixed |= role == NodeRole::kMixed;
  }
  return mixed || (prefill && decode);
}

bool Membership::Serving() const {
  std::lock_guard lock(mutex_);
  return ServingLocked();
}

std::string Membership::numerics_id() const {
  std::lock_guard lock(mutex_);
  return numerics_id_;
}

void Membership::ReportFailure(int index, const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return;
  std::lock_guard lock(mutex_);
  Node& node = *nodes_[index];
  if (node.info) Drop(node, status);
  changed_.notify_all();
}

void Membership::ReportUnreachable(int prefill, int decode, const absl::Status& status) {
  std::lock_guard lock(mutex_);
  Node& from = *nodes_[prefill];
  Node& to = *nodes_[decode];
  // What comes late of a node that is left out already says nothing of the other.
  if (!Usable(from) || !Usable(to)) return;
  std::erase_if(unreachable_, [oldest = OldestReportNanos()](const Unreachable& report) {
    return report.nanos < oldest;
  });
  ForgetPair(prefill, decode);
  unreachable_.push_back({prefill, decode, clock_.NowNanos()});

  // A pair is reported once, so these are as many nodes.
  const auto reporters =
      std::count_if(unreachable_.begin(), unreachable_.end(),
                    [&](const Unreachable& report) { return report.decode == decode; });
  const auto out_of_reach =
      std::count_if(unreachable_.begin(), unreachable_.end(),
                    [&](const Unreachable& report) { return report.prefill == prefill; });
  const auto prefill_nodes = std::count_if(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    return Usable(*node) && RoleOf(*node->info) == NodeRole::kPrefill;
  });
  constexpr std::ptrdiff_t kEnough = 2;
  if (reporters >= std::min(kEnough, prefill_nodes)) {
    Drop(to, absl::UnavailableError(
                 absl::StrCat("no KV gets through to it from ", reporters,
                              " prefill nodes; the last: ", std::string(status.message()))));
  } else if (out_of_reach >= kEnough) {
    Drop(from, absl::UnavailableError(
                   absl::StrCat("its KV gets through to none of ", out_of_reach,
                                " decode nodes; the last: ", std::string(status.message()))));
  }
  changed_.notify_all();
}

void Membership::ReportReached(int prefill, int decode) {
  std::lock_guard lock(mutex_);
  ForgetPair(prefill, decode);
}

std::vector<int> Membership::OutOfReachFor(int decode) const {
  std::lock_guard lock(mutex_);
  std::vector<int> prefills;
  for (const Unreachable& report : unreachable_) {
    if (report.decode == decode && report.nanos >= OldestReportNanos()) {
      prefills.push_back(report.prefill);
    }
  }
  return prefills;
}

int64_t Membership::OldestReportNanos() const {
  return clock_.NowNanos() - ToNanos(options_.unreachable_seconds);
}

void Membership::ForgetPair(int prefill, int decode) {
  std::erase_if(unreachable_, [&](const Unreachable& report) {
    return report.prefill == prefill && report.decode == decode;
  });
}

void Membership::NoteReserved(int index, int blocks) {
  std::lock_guard lock(mutex_);
  ++nodes_[index]->noted_requests;
  nodes_[index]->noted_blocks += blocks;
}

}  // namespace headway
