#include "tests/shared_data.h"

#include <cstdlib>
#include <filesystem>

#include "runtime/base/check.h"

namespace headway {
namespace {

namespace fs = std::filesystem;

// The root of this repository as Bazel laid it out for the test: links to the source files.
fs::path RunfilesRoot() {
  const char* runfiles = std::getenv("TEST_SRCDIR");
  if (runfiles != nullptr) return fs::path(runfiles) / "headway";
  // Started by hand from bazel-bin.
  return fs::path(fs::read_symlink("/proc/self/exe").string() + ".runfiles") / "headway";
}

}  // namespace

std::string GoldenPath(std::string_view relative) {
  return (RunfilesRoot() / "tests/golden" / relative).string();
}

std::string GoldenPathWithConfig(std::string_view relative, std::string_view config) {
  std::string name = testing::TempDir() + "/golden.XXXXXX";
  HEADWAY_CHECK(mkdtemp(name.data()) != nullptr);
  const fs::path folder = name;
  const fs::path golden = GoldenPath(relative);
  for (const fs::directory_entry& entry : fs::directory_iterator(golden)) {
    if (entry.path().filename() == "config.json") continue;
    fs::create_symlink(fs::absolute(entry.path()), folder / entry.path().filename());
  }
  fs::create_symlink(fs::absolute(golden / config), folder / "config.json");
  return name;
}

std::optional<std::string> SharedPath(std::string_view relative) {
  std::error_code error;
  const fs::path source = fs::canonical(RunfilesRoot() / "tests/golden/README.md", error);
  if (error) return std::nullopt;
  const fs::path repository = source.parent_path().parent_path().parent_path();
  const fs::path path = repository.parent_path() / "shared" / relative;
  if (!fs::exists(path, error)) return std::nullopt;
  return path.string();
}

}  // namespace headway
