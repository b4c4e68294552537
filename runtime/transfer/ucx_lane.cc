#include "runtime/transfer/ucx_lane.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/transfer/ucx_address.h"
#include "runtime/transfer/ucx_message.h"

namespace headway {
namespace {

constexpr unsigned kFragment = 1;  // id of UCX's active message
// Places in the queue, and the bytes of each: half a megabyte, which a processor's cache holds.
constexpr int kPlaces = 64;
constexpr size_t kPlaceBytes = 8192;
// UCX's own part of a place is smaller than the difference.
constexpr size_t kFragmentBytes = kPlaceBytes - 128;

absl::StatusOr<std::unique_ptr<UcxWorker>> CreateWorker(const UcxLibrary& ucx,
                                                        const std::string& transport) {
  // Both ends reckon with the geometry of their own settings, so these are stated here and not left
  // to the environment. The last two keep small what UCX allocates beside the queue for a way of
  // sending that is not used.
  return UcxWorker::Create(ucx, {{"TLS", transport},
                                 {"MM_FIFO_SIZE", absl::StrCat(kPlaces)},
                                 {"MM_FIFO_ELEM_SIZE", absl::StrCat(kPlaceBytes)},
                                 {"MM_RX_BUFS_GROW", absl::StrCat(2 * kPlaces)},
                                 {"MM_SEG_SIZE", "1024"}});
}

// An endpoint of `worker`, which destroys it.
absl::StatusOr<ucp_ep_h> Connect(const UcxLibrary& ucx, const UcxWorker& worker,
                                 std::string_view worker_address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  ucp_ep_h endpoint = nullptr;
  HEADWAY_RETURN_IF_ERROR(UcxStatus(ucx, ucx.ucp_ep_create(worker.handle(), &params, &endpoint),
                                    "no way to the shared memory"));
  return endpoint;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxLaneReader>> UcxLaneReader::Create(const UcxLibrary& ucx,
                                                                     const std::string& transport,
                                                                     Deliver deliver) {
  auto reader = std::unique_ptr<UcxLaneReader>(new UcxLaneReader(ucx, std::move(deliver)));
  HEADWAY_ASSIGN_OR_RETURN(reader->worker_, CreateWorker(ucx, transport));
  HEADWAY_RETURN_IF_ERROR(reader->worker_->SetHandler(kFragment, OnFragment, reader.get()));
  HEADWAY_ASSIGN_OR_RETURN(const std::string address, reader->worker_->Address());
  reader->address_ = WrapUcxAddress(address);
  // To itself, and never used: while a worker has no endpoint, UCX neither arms it for arrivals nor
  // makes its descriptor readable.
  HEADWAY_RETURN_IF_ERROR(Connect(ucx, *reader->worker_, address).status());
  return reader;
}

bool UcxLaneReader::Progress() {
  bool moved = false;
  // UCX takes a few places a time.
  for (int i = 0; i < kPlaces / 4 && ucx_.ucp_worker_progress(worker_->handle()) != 0; ++i) {
    moved = true;
  }
  return moved;
}

void UcxLaneReader::Drain() {
  for (int i = 0; i < kPlaces && ucx_.ucp_worker_progress(worker_->handle()) != 0; ++i) {
  }
}

bool UcxLaneReader::Arm() { return ucx_.ucp_worker_arm(worker_->handle()) == UCS_OK; }

ucs_status_t UcxLaneReader::OnFragment(void* arg, const void*, size_t, void* data, size_t length,
                                       const ucp_am_recv_param_t*) {
  static_cast<UcxLaneReader*>(arg)->Take({static_cast<const std::byte*>(data), length});
  return UCS_OK;
}

void UcxLaneReader::Take(std::span<const std::byte> fragment) {
  if (broken_) return;
  if (bytes_ == 0) {
    UcxMessagePrefix prefix;
    if (fragment.size() >= sizeof(prefix)) {
      std::memcpy(&prefix, fragment.data(), sizeof(prefix));
      if (prefix.mark == UcxMessagePrefix::kGreeting) return;
    }
    if (fragment.size() < sizeof(prefix) || prefix.mark != UcxMessagePrefix::kMessage ||
        prefix.bytes < fragment.size() || prefix.bytes > kMaxUcxMessageBytes) {
      broken_ = true;
      return;
    }
    if (prefix.bytes == fragment.size()) {
      deliver_(fragment);
      return;
    }
    bytes_ = prefix.bytes;
    have_ = 0;
    if (capacity_ < bytes_) {
      message_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
      capacity_ = bytes_;
    }
  }
  if (fragment.size() > bytes_ - have_) {
    broken_ = true;
    return;
  }
  std::copy(fragment.begin(), fragment.end(), message_.get() + have_);
  have_ += fragment.size();
  if (have_ < bytes_) return;
  deliver_({message_.get(), std::exchange(bytes_, 0)});
}

absl::StatusOr<std::unique_ptr<UcxLaneWriter>> UcxLaneWriter::Create(
    const UcxLibrary& ucx, const std::string& transport, const std::string& reader_address) {
  HEADWAY_ASSIGN_OR_RETURN(const UcxAddress address, UnwrapUcxAddress(reader_address));
  auto writer = std::unique_ptr<UcxLaneWriter>(new UcxLaneWriter(ucx));
  HEADWAY_ASSIGN_OR_RETURN(writer->worker_, CreateWorker(ucx, transport));
  HEADWAY_ASSIGN_OR_RETURN(writer->endpoint_, Connect(ucx, *writer->worker_, address.worker));
  // The queue is empty now, so a fragment of full size is refused only if it can never be sent.
  std::vector<std::byte> greeting(kFragmentBytes);
  const UcxMessagePrefix prefix = {.mark = UcxMessagePrefix::kGreeting, .bytes = greeting.size()};
  std::memcpy(greeting.data(), &prefix, sizeof(prefix));
  size_t written = 0;
  HEADWAY_RETURN_IF_ERROR(writer->Write(greeting, written));
  if (written < greeting.size()) {
    return absl::UnavailableError(absl::StrCat("shared memory \"", transport,
                                               "\" takes no fragments of ", kFragmentBytes,
                                               " bytes; UCX_* variables may say so"));
  }
  return writer;
}

absl::Status UcxLaneWriter::Write(std::span<const std::byte> message, size_t& written) {
  ucp_request_param_t param{};
  // Now or not at all: UCX is not to keep what finds no room.
  param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  while (written < message.size()) {
    const size_t bytes = std::min(message.size() - written, kFragmentBytes);
    const ucs_status_ptr_t sent = ucx_.ucp_am_send_nbx(endpoint_, kFragment, nullptr, 0,
                                                       message.data() + written, bytes, &param);
    if (sent == nullptr) {
      written += bytes;
    } else if (UCS_PTR_STATUS(sent) == UCS_ERR_NO_RESOURCE) {
      // This also lets UCX look whether the reader has made room.
      ucx_.ucp_worker_progress(worker_->handle());
      return absl::OkStatus();
    } else {
      return UcxStatus(ucx_, UCS_PTR_RAW_STATUS(sent), "shared memory");
    }
  }
  return absl::OkStatus();
}

}  // namespace headway
