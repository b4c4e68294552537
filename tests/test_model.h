#ifndef HEADWAY_TESTS_TEST_MODEL_H_
#define HEADWAY_TESTS_TEST_MODEL_H_

#include <unistd.h>

#include <optional>
#include <string>

namespace headway {

// The path of SmolLM2-135M-Instruct for a test with data = ["@test_model//:smollm2"]; nothing where
// deploy/fetch-model has not fetched it. Such a test then says so with GTEST_SKIP.
inline std::optional<std::string> TestModelPath() {
  const std::string path = "external/test_model/smollm2.gguf";
  if (access(path.c_str(), R_OK) != 0) return std::nullopt;
  return path;
}

}  // namespace headway

#endif  // HEADWAY_TESTS_TEST_MODEL_H_
