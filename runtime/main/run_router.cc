// `headway router`: flags -> tokenizer, nodes, service -> wait -> drain.
#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/impl/codegen/service_type.h"
#include "proto/headway/v1/inference.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/cluster/membership.h"
#include "runtime/cluster/ready_line.h"
#include "runtime/main/router_options.h"
#include "runtime/main/stop_signal.h"
#include "runtime/model/model_config.h"
#include "runtime/model/numerics.h"
#include "runtime/model/text_config.h"
#include "runtime/router/router.h"
#include "runtime/server/inference_service.h"
#include "runtime/server/server.h"
#include "runtime/text/chat/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace headway {
namespace {

// Nodes that are started together with the router may still be loading.
constexpr double kNodesSeconds = 60;

std::vector<NodeAddress> AllNodes(const RouterMainOptions& options) {
  std::vector<NodeAddress> nodes;
  for (const std::string& address : options.prefill) nodes.push_back({address, NodeRole::kPrefill});
  for (const std::string& address : options.decode) nodes.push_back({address, NodeRole::kDecode});
  for (const std::string& address : options.mixed) nodes.push_back({address, NodeRole::kMixed});
  return nodes;
}

// What turns prompts into tokens. A checkpoint whose text cannot be read serves token ids, and a
// log line says why; one without a chat template serves plain text.
absl::StatusOr<std::unique_ptr<PromptEncoder>> ReadText(const Checkpoint& checkpoint,
                                                        int vocabulary) {
  const absl::StatusOr<text::TokenizerSpec> spec = ReadTokenizerSpec(checkpoint);
  if (absl::IsNotFound(spec.status()) || absl::IsUnimplemented(spec.status())) {
    LogWarning(absl::StrCat("serving token ids only: ", spec.status().message()));
    return std::make_unique<PromptEncoder>(nullptr, nullptr);
  }
  HEADWAY_RETURN_IF_ERROR(spec.status());
  HEADWAY_RETURN_IF_ERROR(CheckTokenizerFits(*spec, vocabulary));
  HEADWAY_ASSIGN_OR_RETURN(std::unique_ptr<text::Tokenizer> tokenizer,
                           text::Tokenizer::Create(*spec));
  const absl::StatusOr<std::string> source = ReadChatTemplate(checkpoint);
  if (absl::IsNotFound(source.status())) {
    return std::make_unique<PromptEncoder>(std::move(tokenizer), nullptr);
  }
  HEADWAY_RETURN_IF_ERROR(source.status());
  auto spelled = [&](const std::optional<int32_t>& id) -> std::optional<std::string> {
    if (!id) return std::nullopt;
    return spec->tokens[static_cast<size_t>(*id)];
  };
  absl::StatusOr<std::unique_ptr<text::ChatTemplate>> chat_template = text::ChatTemplate::Parse(
      *source, {.bos = spelled(spec->bos_id), .eos = spelled(spec->eos_id)});
  if (!chat_template.ok()) {
    LogWarning(absl::StrCat("serving no chat: the checkpoint's template cannot be used: ",
                            chat_template.status().message()));
    return std::make_unique<PromptEncoder>(std::move(tokenizer), nullptr);
  }
  return std::make_unique<PromptEncoder>(std::move(tokenizer), *std::move(chat_template));
}

// Waits until every node has answered; OK at once when asked to stop, which `signal` still tells.
absl::Status WaitForNodes(Membership& members, const StopSignal& signal) {
  pollfd stop{signal.fd(), POLLIN, 0};
  const auto wait = [&stop](double seconds) { poll(&stop, 1, static_cast<int>(seconds * 1000)); };
  const double deadline = Clock::Real().NowSeconds() + kNodesSeconds;
  while (true) {
    const absl::Status status = members.WaitReady(/*seconds=*/0.2, wait);
    if (!absl::IsDeadlineExceeded(status) || stop.revents != 0) {
      return stop.revents != 0 ? absl::OkStatus() : status;
    }
    if (Clock::Real().NowSeconds() > deadline) {
      if (!members.Serving()) return status;
      LogWarning(absl::StrCat("serving without some nodes: ", std::string(status.message())));
      return absl::OkStatus();
    }
  }
}

}  // namespace

absl::Status RunRouter(const RouterMainOptions& options) {
  StopSignal signal;
  SetLogName("router");
  std::unique_ptr<PromptEncoder> encoder;
  RouterOptions router_options;
  MembershipOptions member_options;
  {
    HEADWAY_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                             Checkpoint::Open(options.model));
    HEADWAY_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*checkpoint));
    // Tokens of one checkpoint mean nothing to nodes of another.
    member_options.checkpoint_id = CheckpointId(*checkpoint);
    HEADWAY_ASSIGN_OR_RETURN(encoder, ReadText(*checkpoint, config.vocabulary));
    if (encoder->tokenizer() != nullptr) {
      router_options.end_token_ids = encoder->tokenizer()->end_ids();
    } else {
      HEADWAY_ASSIGN_OR_RETURN(router_options.end_token_ids, ReadEndTokenIds(*checkpoint));
    }
  }
  const std::vector<NodeAddress> nodes = AllNodes(options);
  auto members = std::make_unique<Membership>(nodes, member_options, Clock::Real());
  HEADWAY_RETURN_IF_ERROR(WaitForNodes(*members, signal));

  Router router(*members, *encoder, router_options, Clock::Real());
  const std::unique_ptr<grpc::Service> service =
      NewInferenceService(router, InferenceServiceOptions(), Clock::Real());
  HEADWAY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Server> server,
      Server::Start(options.listen, {{service.get(), v1::Inference::service_full_name()}}));
  members->Start([&server](bool serving) { server->SetServing(serving); });
  LogInfo(absl::StrCat("serves ", nodes.size(), nodes.size() == 1 ? " node" : " nodes", " on ",
                       server->address()));
  const absl::Status told = WriteReadyLine(options.ready_fd, server->address());
  if (told.ok()) {
    WaitReadable(signal.fd(), /*second=*/-1);
    signal.TakeFirst();
  }
  // From here on the server does not serve, whatever becomes of the nodes.
  members->Stop();
  server->Shutdown(kDrainSeconds);
  return told;
}

}  // namespace headway
