#include "runtime/base/host_port.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(HostPortTest, ReadsNamesAndAddresses) {
  for (const char* host : {"127.0.0.1", "localhost", "node-3.example", "[::1]"}) {
    for (int port : {0, 1, 65535}) {
      const auto parsed = ParseHostPort(std::string(host) + ":" + std::to_string(port));
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(parsed->host, host);
      EXPECT_EQ(parsed->port, port);
    }
  }
}

TEST(HostPortTest, SaysWhatIsMissing) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"", "has no port"},
      {"foo", "has no port"},
      {":7000", "has no host"},
      {"foo:", "0 to 65535"},
      {"foo:65536", "0 to 65535"},
      {"foo:-1", "0 to 65535"},
      {"foo:http", "0 to 65535"},
      {"foo:7x", "0 to 65535"},
      {"foo:99999999999999999999", "0 to 65535"},
      {"::1:7000", "brackets"},
      {"http://foo:7000", "is no HOST:PORT"},
      {"a b:7000", "is no HOST:PORT"}};
  for (const auto& [text, what] : mistakes) {
    const absl::Status status = ParseHostPort(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(testing::HasSubstr(what),
                               testing::HasSubstr(std::string("'") + text + "'")));
  }
}

}  // namespace
}  // namespace headway
