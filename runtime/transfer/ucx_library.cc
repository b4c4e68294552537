#include "runtime/transfer/ucx_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace headway {
namespace {

// What UCX reads while it is being loaded, and what it would log about peers that went away, which
// this project reports itself. UCX logs to standard output otherwise, which belongs to the user.
const char* const kEnvironment[] = {
    "UCX_MEM_EVENTS=n",
    "UCX_HANDLE_ERRORS=none",
    "UCX_LOG_LEVEL=fatal",
    "UCX_LOG_FILE=stderr",
};

// Loads with an extended environment. setenv could free what another thread is reading at the same
// time; here one pointer is exchanged, and both lists stay valid for ever.
void* LoadWithEnvironment(const char* file) {
  static std::vector<char*> extended;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    extended.push_back(*variable);
  }
  for (const char* setting : kEnvironment) {
    const std::string name(setting, std::string(setting).find('=') + 1);
    bool set = false;
    for (const char* variable : extended) set |= std::string(variable).starts_with(name);
    if (!set) extended.push_back(const_cast<char*>(setting));
  }
  extended.push_back(nullptr);
  char** const before = environ;
  environ = extended.data();
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  environ = before;
  return handle;
}

absl::StatusOr<UcxLibrary> LoadOnce() {
  UcxLibrary library;
  void* const handle = LoadWithEnvironment("libucp.so.0");
  if (handle == nullptr) {
    const char* error = dlerror();
    return absl::UnavailableError(absl::StrCat("the KV transport needs UCX (Debian: libucx0): ",
                                               error == nullptr ? "not found" : error));
  }
#define HEADWAY_UCX_RESOLVE(name)                                                    \
  library.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));          \
  if (library.name == nullptr) {                                                     \
    return absl::UnavailableError("the KV transport needs UCX 1.13 or later; " #name \
                                  " is missing from the one that is installed");     \
  }
  HEADWAY_UCX_FUNCTIONS(HEADWAY_UCX_RESOLVE)
#undef HEADWAY_UCX_RESOLVE
  return library;
}

}  // namespace

absl::StatusOr<const UcxLibrary*> UcxLibrary::Load() {
  static const absl::StatusOr<UcxLibrary> library = LoadOnce();
  if (!library.ok()) return library.status();
  return &*library;
}

absl::Status UcxStatus(const UcxLibrary& ucx, ucs_status_t status, const char* what) {
  if (status == UCS_OK) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", ucx.ucs_status_string(status));
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return absl::ResourceExhaustedError(message);
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
      return absl::InvalidArgumentError(message);
    case UCS_ERR_CANCELED:
      return absl::CancelledError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace headway
