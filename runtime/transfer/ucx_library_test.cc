// What loading UCX leaves alone.
#include "runtime/transfer/ucx_library.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/transfer/ucx_transport.h"

namespace headway {
namespace {

// The first bytes of functions that UCX rewrites when it may.
std::string Code() {
  std::string code;
  for (const char* name : {"mmap", "munmap", "mremap", "shmat", "shmdt", "madvise"}) {
    code.append(static_cast<const char*>(dlsym(RTLD_DEFAULT, name)), 16);
  }
  return code;
}

std::vector<void*> SignalHandlers() {
  std::vector<void*> handlers;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM, SIGINT}) {
    struct sigaction action;
    sigaction(signal, nullptr, &action);
    handlers.push_back(reinterpret_cast<void*>(action.sa_handler));
  }
  return handlers;
}

TEST(UcxLibraryTest, LoadingChangesNeitherTheCLibraryNorSignalsNorTheEnvironment) {
  ASSERT_EQ(dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD), nullptr) << "UCX is linked";
  const std::string code = Code();
  const std::vector<void*> handlers = SignalHandlers();
  char** const environment = environ;
  testing::internal::CaptureStdout();

  const auto library = UcxLibrary::Load();
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(*UcxLibrary::Load(), *library);
  {
    const auto transport = UcxTransport::Create({.net_devices = "lo"});
    ASSERT_TRUE(transport.ok()) << transport.status();
  }

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_TRUE(Code() == code);
  EXPECT_EQ(SignalHandlers(), handlers);
  EXPECT_EQ(environ, environment);
  EXPECT_EQ(getenv("UCX_MEM_EVENTS"), nullptr);
}

TEST(UcxTransportOptionsTest, WhatUcxRefusesIsNamed) {
  for (const UcxOptions& options : {UcxOptions{.transports = "no_such_transport"},
                                    UcxOptions{.net_devices = "no_such_device"}}) {
    const auto transport = UcxTransport::Create(options);
    ASSERT_FALSE(transport.ok());
    EXPECT_NE(transport.status().message().find("no_such_"), std::string::npos)
        << transport.status();
  }
}

}  // namespace
}  // namespace headway
