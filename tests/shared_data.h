#ifndef HEADWAY_TESTS_SHARED_DATA_H_
#define HEADWAY_TESTS_SHARED_DATA_H_

#include <optional>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace headway {

// The path of tests/golden/`relative`, for a test whose `data` names it.
std::string GoldenPath(std::string_view relative);

// A new folder of this test with links to the files of the golden folder `relative`, but with
// `config` (a file of that folder, e.g. "config.v4.json") as its config.json.
std::string GoldenPathWithConfig(std::string_view relative, std::string_view config);

// The path of `relative` in the folder `shared` beside the repository, which holds bulk data that
// the repository does not carry; none where there is no such file. Bazel does not know of these
// files: give the test the tag "external", so that an earlier result is not reused.
std::optional<std::string> SharedPath(std::string_view relative);

}  // namespace headway

// Assigns the path of shared/RELATIVE to `path`, a new variable, or skips the test and says why.
#define HEADWAY_SKIP_WITHOUT_SHARED(path, relative)                                              \
  const std::optional<std::string> path##_if_any = ::headway::SharedPath(relative);              \
  if (!path##_if_any) GTEST_SKIP() << "no ../shared/" << (relative) << " beside the repository"; \
  const std::string& path = *path##_if_any

#endif  // HEADWAY_TESTS_SHARED_DATA_H_
