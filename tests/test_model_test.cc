#include "tests/test_model.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(TestModelTest, IsAWholeGgufFile) {
  const std::optional<std::string> path = TestModelPath();
  if (!path.has_value()) GTEST_SKIP() << "run deploy/fetch-model, then bazel sync --configure";
  std::ifstream file(*path, std::ios::binary | std::ios::ate);
  EXPECT_EQ(file.tellg(), 98362432);
  std::string magic(4, ' ');
  file.seekg(0);
  file.read(magic.data(), 4);
  EXPECT_EQ(magic, "GGUF");
}

}  // namespace
}  // namespace headway
