#include "runtime/base/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

std::string Write(const std::string& name, const std::string& contents) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::string Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFileTest, ShowsTheWholeFile) {
  const MappedFile file = *MappedFile::Open(Write("some", std::string("a\0b", 3)));
  EXPECT_EQ(Text(file), std::string("a\0b", 3));
}

TEST(MappedFileTest, AnEmptyFileHasNoBytes) {
  EXPECT_TRUE(MappedFile::Open(Write("empty", ""))->bytes().empty());
}

TEST(MappedFileTest, BytesStayWhereTheyAreInAMove) {
  MappedFile first = *MappedFile::Open(Write("first", "first"));
  const std::byte* where = first.bytes().data();
  MappedFile second = *MappedFile::Open(Write("second", "second"));
  second = std::move(first);
  EXPECT_EQ(second.bytes().data(), where);
  EXPECT_EQ(Text(second), "first");
  const MappedFile third = std::move(second);
  EXPECT_EQ(Text(third), "first");
}

TEST(MappedFileTest, OutlivesTheNameOfTheFile) {
  const std::string path = Write("gone", "still here");
  const MappedFile file = *MappedFile::Open(path);
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_EQ(Text(file), "still here");
}

TEST(MappedFileTest, SaysWhyNot) {
  const std::string folder = testing::TempDir();
  const std::string none = folder + "/none";
  EXPECT_EQ(MappedFile::Open(none).status(), absl::NotFoundError(none + ": no such file"));
  EXPECT_EQ(MappedFile::Open(folder).status(),
            absl::InvalidArgumentError(folder + ": not a regular file"));
  // Opening a pipe would otherwise wait until somebody writes to it.
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(pipe).status(),
            absl::InvalidArgumentError(pipe + ": not a regular file"));
}

}  // namespace
}  // namespace headway
