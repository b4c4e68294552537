#include "tests/shared_data.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden_tensors.h"

namespace headway {
namespace {

using testing::ElementsAre;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(GoldenPathTest, LeadsToFilesOfTheRepository) {
  EXPECT_THAT(ReadFile(GoldenPath("README.md")), testing::HasSubstr("tests/golden"));
}

TEST(GoldenPathTest, WithConfigExchangesTheConfigAlone) {
  const std::string golden = GoldenPath("models/llama_bias");
  const std::string folder = GoldenPathWithConfig("models/llama_bias", "config.v4.json");
  EXPECT_EQ(ReadFile(folder + "/config.json"), ReadFile(golden + "/config.v4.json"));
  EXPECT_NE(ReadFile(folder + "/config.json"), ReadFile(golden + "/config.json"));
  EXPECT_EQ(ReadFile(folder + "/model.safetensors"), ReadFile(golden + "/model.safetensors"));
}

TEST(SharedPathTest, IsNoneForWhatIsNotThere) {
  EXPECT_EQ(SharedPath("no/such/file"), std::nullopt);
}

TEST(SharedPathTest, LiesBesideTheRepository) {
  HEADWAY_SKIP_WITHOUT_SHARED(path, "golden");
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST(ReadGoldenTest, ReadsTypesAndShapes) {
  const GoldenTensors tensors = ReadGolden(GoldenPath("models/llama_gqa_9_3/expected.safetensors"));
  EXPECT_THAT(tensors.at("ids").shape, ElementsAre(3, 37));
  EXPECT_EQ(tensors.at("ids").ints.size(), 3 * 37);
  EXPECT_THAT(tensors.at("logits").shape, ElementsAre(3, 37, 163));
  EXPECT_EQ(tensors.at("logits").floats.size(), 3 * 37 * 163);
  EXPECT_THAT(tensors.at("tolerance").floats, ElementsAre(testing::FloatNear(1.0e-4f, 1e-5f)));
}

}  // namespace
}  // namespace headway
