#include "runtime/transfer/ucx_worker.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace headway {

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const UcxLibrary& ucx,
                                                             const Settings& settings) {
  auto worker = std::unique_ptr<UcxWorker>(new UcxWorker(ucx));
  std::string what = "UCX with";
  for (const auto& [name, value] : settings) absl::StrAppend(&what, " ", name, "=\"", value, "\"");
  HEADWAY_RETURN_IF_ERROR(Annotate(worker->Start(settings), what));
  return worker;
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucx_.ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucx_.ucp_cleanup(context_);
}

absl::Status UcxWorker::Start(const Settings& settings) {
  ucp_config_t* config;
  HEADWAY_RETURN_IF_ERROR(
      UcxStatus(ucx_, ucx_.ucp_config_read(nullptr, nullptr, &config), "configuration"));
  absl::Status status;
  for (const auto& [name, value] : settings) {
    if (!status.ok()) break;
    status =
        UcxStatus(ucx_, ucx_.ucp_config_modify(config, name.c_str(), value.c_str()), name.c_str());
  }
  if (status.ok()) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = UcxStatus(
        ucx_, ucx_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_),
        "start");
  }
  ucx_.ucp_config_release(config);
  HEADWAY_RETURN_IF_ERROR(status);

  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  HEADWAY_RETURN_IF_ERROR(
      UcxStatus(ucx_, ucx_.ucp_worker_create(context_, &params, &worker_), "worker"));
  return UcxStatus(ucx_, ucx_.ucp_worker_get_efd(worker_, &event_fd_), "event descriptor");
}

absl::StatusOr<std::string> UcxWorker::Address() const {
  ucp_address_t* address;
  size_t length;
  HEADWAY_RETURN_IF_ERROR(
      UcxStatus(ucx_, ucx_.ucp_worker_get_address(worker_, &address, &length), "UCX address"));
  std::string copy(reinterpret_cast<const char*>(address), length);
  ucx_.ucp_worker_release_address(worker_, address);
  return copy;
}

absl::Status UcxWorker::SetHandler(unsigned message_id, ucp_am_recv_callback_t handler, void* arg) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = message_id;
  params.cb = handler;
  params.arg = arg;
  return UcxStatus(ucx_, ucx_.ucp_worker_set_am_recv_handler(worker_, &params),
                   "UCX message handler");
}

}  // namespace headway
