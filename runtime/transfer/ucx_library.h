#ifndef HEADWAY_RUNTIME_TRANSFER_UCX_LIBRARY_H_
#define HEADWAY_RUNTIME_TRANSFER_UCX_LIBRARY_H_

#include <ucp/api/ucp.h>

#include "absl/status/statusor.h"

namespace headway {

// The functions of libucp and libucs that this project calls. Loaded on first use and not linked,
// because UCX 1.13, when it is loaded, rewrites the code of mmap, munmap and their like in place
// (which ThreadSanitizer does not survive) and takes over SIGSEGV, SIGBUS, SIGILL and SIGFPE. It
// reads whether to do so from its environment at that moment and from nowhere else; Load() shows it
// an environment that says no. So a process that transfers nothing never meets UCX, and in one that
// does the C library and the signals stay as they were.
struct UcxLibrary {
#define HEADWAY_UCX_FUNCTIONS(X)    \
  X(ucp_am_send_nbx)                \
  X(ucp_cleanup)                    \
  X(ucp_config_modify)              \
  X(ucp_config_read)                \
  X(ucp_config_release)             \
  X(ucp_ep_close_nbx)               \
  X(ucp_ep_create)                  \
  X(ucp_init_version)               \
  X(ucp_request_check_status)       \
  X(ucp_request_free)               \
  X(ucp_worker_arm)                 \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_flush_nbx)           \
  X(ucp_worker_get_address)         \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_progress)            \
  X(ucp_worker_release_address)     \
  X(ucp_worker_set_am_recv_handler) \
  X(ucs_status_string)
#define HEADWAY_UCX_DECLARE(name) decltype(&::name) name = nullptr;
  HEADWAY_UCX_FUNCTIONS(HEADWAY_UCX_DECLARE)
#undef HEADWAY_UCX_DECLARE

  // Loads the library once; later calls return the same. Unavailable naming the Debian package when
  // it is not installed. Thread-safe. Variables UCX_* that the user has set keep their values.
  static absl::StatusOr<const UcxLibrary*> Load();
};

// OK, or `what` and UCX's own words under the code that fits.
absl::Status UcxStatus(const UcxLibrary& ucx, ucs_status_t status, const char* what);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_TRANSFER_UCX_LIBRARY_H_
