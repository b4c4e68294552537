#include "runtime/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/test_images.h"

namespace headway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// A tensor of 16-bit values in a safetensors header.
std::string Entry(std::string_view name, std::string_view shape, int begin, int end) {
  return absl::StrCat("\"", std::string(name),
                      "\":{\"dtype\":\"BF16\",\"shape\":", std::string(shape),
                      ",\"data_offsets\":[", begin, ",", end, "]}");
}

// a: [2, 2], b: [3].
std::string WholeWeights(char fill = 'x') {
  return SafetensorsImage(
      absl::StrCat("{", Entry("a", "[2,2]", 0, 8), ",", Entry("b", "[3]", 8, 14), "}"),
      std::string(8, fill) + std::string(6, 'y'));
}

std::string Folder(std::string_view weights) {
  const std::string folder = NewFolder();
  WriteFile(folder, "config.json", R"({"model_type": "llama"})");
  WriteFile(folder, "model.safetensors", weights);
  return folder;
}

// The same weights in two shards, of which the second has tensor `extra` of 1 value too many.
std::string ShardedFolder(std::string_view weight_map, std::string_view extra = "unused") {
  const std::string folder = NewFolder();
  WriteFile(folder, "config.json", R"({"model_type": "llama"})");
  WriteFile(folder, "one.safetensors",
            SafetensorsImage(absl::StrCat("{", Entry("a", "[2,2]", 0, 8), "}"), "xxxxxxxx"));
  WriteFile(folder, "two.safetensors",
            SafetensorsImage(
                absl::StrCat("{", Entry("b", "[3]", 0, 6), ",", Entry(extra, "[1]", 6, 8), "}"),
                "yyyyyyzz"));
  WriteFile(folder, "model.safetensors.index.json",
            absl::StrCat(R"({"metadata": {"total_size": 14}, "weight_map": )",
                         std::string(weight_map), "}"));
  return folder;
}

TEST(CheckpointTest, NoSuchFile) {
  const std::string folder = NewFolder();
  for (const std::string& path : {folder + "/none.gguf", std::string(), folder + "/a/b"}) {
    const absl::Status status = Checkpoint::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_EQ(Message(status), path + ": no such file");
  }
}

TEST(CheckpointTest, FilesThatAreNoCheckpoint) {
  const std::string folder = NewFolder();
  const auto error = [&](std::string_view name, std::string_view contents) {
    const std::string path = WriteFile(folder, name, contents);
    const absl::Status status = Checkpoint::Open(path).status();
    EXPECT_THAT(Message(status), StartsWith(path + ": "));
    return Message(status);
  };
  EXPECT_THAT(error("empty.gguf", ""), HasSubstr("the file ends after 0 bytes"));
  EXPECT_THAT(error("text.gguf", "hello"), HasSubstr("not a GGUF file: it begins with 'hell'"));
  EXPECT_THAT(error("model.safetensors", WholeWeights()), HasSubstr("name the folder"));
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Message(Checkpoint::Open(pipe).status()), pipe + ": not a regular file");
  EXPECT_EQ(Message(Checkpoint::Open("/dev/null").status()), "/dev/null: not a regular file");
}

TEST(CheckpointTest, GgufErrorsNameFileAndTensor) {
  GgufImage image;
  image.Tensor("blk.7.w", {4}, 0, 8);
  image.data = std::string(64, 'x');
  const std::string path = WriteFile(NewFolder(), "m.gguf", image.Build());
  EXPECT_EQ(Message(Checkpoint::Open(path).status()),
            path + ": tensor 'blk.7.w': offset 8 is not a multiple of the alignment 32");
}

TEST(CheckpointTest, ASplitGgufIsNamedAsSuch) {
  const auto open = [](uint16_t files) {
    const GgufImage image = SmallGguf().Key("split.count", GgufType::kUint16, Raw(files));
    return Checkpoint::Open(WriteFile(NewFolder(), "m-00001-of-00003.gguf", image.Build()))
        .status();
  };
  EXPECT_TRUE(open(0).ok());
  EXPECT_TRUE(open(1).ok());
  EXPECT_EQ(open(3).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(open(3)), HasSubstr("one of 3 files that make up a model"));
}

TEST(CheckpointTest, GgufTensors) {
  GgufImage image = SmallGguf();
  image.Tensor("strange", {4}, 999, 160);
  const std::string path = WriteFile(NewFolder(), "m.gguf", image.Build());
  const auto checkpoint = *Checkpoint::Open(path);
  EXPECT_THAT(checkpoint->TensorNames(), ElementsAre("last", "linear", "norm", "strange"));
  EXPECT_EQ(checkpoint->Tensor("linear")->dtype, DType::kQ4_1);
  EXPECT_THAT(checkpoint->Tensor("linear")->shape, ElementsAre(3, 64));
  EXPECT_FALSE(checkpoint->Has("none"));
  EXPECT_EQ(checkpoint->Tensor("none").status(),
            absl::NotFoundError(path + ": there is no tensor 'none'"));
  EXPECT_EQ(checkpoint->Tensor("strange").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(checkpoint->Tensor("strange").status()),
              HasSubstr("tensor 'strange' is stored as unknown type 999"));
}

TEST(HuggingFaceTest, OneFile) {
  const std::string folder = Folder(WholeWeights());
  const auto checkpoint = *Checkpoint::Open(folder);
  EXPECT_THAT(checkpoint->TensorNames(), ElementsAre("a", "b"));
  const TensorRef a = *checkpoint->Tensor("a");
  EXPECT_EQ(a.dtype, DType::kBF16);
  EXPECT_EQ(a.rows(), 2);
  EXPECT_EQ(a.row(1) - a.row(0), 4);
  EXPECT_EQ(*a.row(1), std::byte{'x'});
  EXPECT_EQ(checkpoint->file_bytes(), static_cast<int64_t>(WholeWeights().size()));
}

TEST(HuggingFaceTest, ATypeThatCannotBeUsedHarmsNoOtherTensor) {
  const std::string folder = Folder(SafetensorsImage(
      R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)" + Entry("w", "[1]", 8, 10) + "}",
      "0123456789"));
  const auto checkpoint = *Checkpoint::Open(folder);
  EXPECT_TRUE(checkpoint->Has("i"));
  EXPECT_TRUE(checkpoint->Tensor("w").ok());
  EXPECT_EQ(checkpoint->Tensor("i").status(),
            absl::InvalidArgumentError(folder + ": tensor 'i' is stored as 'I64'; the types that "
                                                "can be used are F32, F16 and BF16"));
}

TEST(HuggingFaceTest, ShardsAreOneCheckpoint) {
  const auto sharded =
      *Checkpoint::Open(ShardedFolder(R"({"a": "one.safetensors", "b": "two.safetensors"})"));
  EXPECT_THAT(sharded->TensorNames(), ElementsAre("a", "b"));
  EXPECT_THAT(sharded->Tensor("a")->shape, ElementsAre(2, 2));
  EXPECT_EQ(*sharded->Tensor("b")->row(0), std::byte{'y'});
  // How weights are spread over files is no part of what they are.
  EXPECT_EQ(sharded->digest(), (*Checkpoint::Open(Folder(WholeWeights())))->digest());
}

TEST(HuggingFaceTest, FilesThatTheIndexDoesNotNameAreNotLookedAt) {
  const std::string folder = ShardedFolder(R"({"a": "one.safetensors", "b": "two.safetensors"})");
  // The same names with other values, and a file that could not be read.
  WriteFile(folder, "a-first.safetensors", WholeWeights('z'));
  WriteFile(folder, "zz-last.safetensors", "garbage");
  const auto checkpoint = Checkpoint::Open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(*(*checkpoint)->Tensor("a")->row(0), std::byte{'x'});
  EXPECT_EQ((*checkpoint)->digest(), (*Checkpoint::Open(Folder(WholeWeights())))->digest());
}

TEST(HuggingFaceTest, ATensorInTwoShardsMustBeTheSame) {
  constexpr char kBoth[] = R"({"a": "one.safetensors", "b": "two.safetensors"})";
  const std::string folder = ShardedFolder(kBoth, "a");
  EXPECT_EQ(Checkpoint::Open(folder).status(),
            absl::InvalidArgumentError(folder +
                                       "/two.safetensors: tensor 'a' is not the one in "
                                       "one.safetensors, where model.safetensors.index.json says "
                                       "that it is; remove one of the two"));
  const auto with_copy = [&](char fill) {
    WriteFile(folder, "two.safetensors",
              SafetensorsImage(
                  absl::StrCat("{", Entry("b", "[3]", 0, 6), ",", Entry("a", "[2,2]", 6, 14), "}"),
                  "yyyyyy" + std::string(7, 'x') + fill));
    return Checkpoint::Open(folder).status();
  };
  EXPECT_EQ(with_copy('z').code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(with_copy('x').ok()) << with_copy('x');
}

TEST(HuggingFaceTest, BadIndex) {
  const auto error = [](std::string_view weight_map) {
    const std::string folder = ShardedFolder(weight_map);
    const absl::Status status = Checkpoint::Open(folder).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(Message(status), HasSubstr(folder));
    return Message(status);
  };
  EXPECT_THAT(error("3"), HasSubstr("'weight_map' is missing or not an object"));
  EXPECT_THAT(error(R"({"a": 3})"), HasSubstr("the file of tensor 'a' is not text"));
  EXPECT_THAT(error(R"({"a": "three.safetensors"})"), HasSubstr("three.safetensors: no such file"));
  EXPECT_THAT(error(R"({"b": "one.safetensors"})"),
              HasSubstr("one.safetensors: there is no tensor 'b'"));
  for (const char* outside : {"../one.safetensors", "/etc/passwd", "", ".."}) {
    EXPECT_THAT(error(absl::StrCat(R"({"a": ")", outside, R"("})")),
                HasSubstr("which is not a file name"));
  }
  EXPECT_THAT(error(R"({"a": "one.safetensors", "a": "two.safetensors"})"),
              HasSubstr("the name 'a' stands twice"));
  EXPECT_THAT(error("{"), HasSubstr("not valid JSON"));
}

TEST(HuggingFaceTest, IncompleteFolders) {
  const std::string folder = NewFolder();
  EXPECT_EQ(
      Checkpoint::Open(folder).status(),
      absl::NotFoundError(folder + ": not a checkpoint folder: there is no config.json in it"));
  WriteFile(folder, "config.json", "{");
  EXPECT_THAT(Message(Checkpoint::Open(folder).status()),
              StartsWith(folder + "/config.json: not valid JSON"));
  WriteFile(folder, "config.json", "{}");
  EXPECT_EQ(Checkpoint::Open(folder).status(),
            absl::NotFoundError(folder + ": no weights: neither model.safetensors nor "
                                         "model.safetensors.index.json is there"));
  WriteFile(folder, "model.safetensors", WholeWeights().substr(0, 50));
  EXPECT_THAT(Message(Checkpoint::Open(folder).status()),
              StartsWith(folder + "/model.safetensors: the file ends after 50 bytes"));
}

TEST(HuggingFaceTest, SideFilesStayInTheFolder) {
  const std::string folder = Folder(WholeWeights());
  WriteFile(folder, "tokenizer.json", "{}");
  const auto checkpoint = *Checkpoint::Open(folder);
  EXPECT_EQ(*checkpoint->SideFile("tokenizer.json"), "{}");
  EXPECT_EQ(checkpoint->SideFile("none.json").status().code(), absl::StatusCode::kNotFound);
  for (const char* outside : {"../x", "/etc/passwd", "", "."}) {
    EXPECT_EQ(checkpoint->SideFile(outside).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(HuggingFaceTest, DigestSeesMetadataShapesAndBytes) {
  const auto digest = [](const std::string& folder) {
    return (*Checkpoint::Open(folder))->digest();
  };
  const uint64_t original = digest(Folder(WholeWeights()));
  EXPECT_EQ(digest(Folder(WholeWeights())), original);  // a copy elsewhere
  EXPECT_NE(digest(Folder(WholeWeights('z'))), original);
  const std::string reshaped = SafetensorsImage(
      absl::StrCat("{", Entry("a", "[4]", 0, 8), ",", Entry("b", "[3]", 8, 14), "}"),
      "xxxxxxxxyyyyyy");
  EXPECT_NE(digest(Folder(reshaped)), original);
  const std::string renamed = SafetensorsImage(
      absl::StrCat("{", Entry("a", "[2,2]", 0, 8), ",", Entry("c", "[3]", 8, 14), "}"),
      "xxxxxxxxyyyyyy");
  EXPECT_NE(digest(Folder(renamed)), original);
  const std::string other_config = Folder(WholeWeights());
  WriteFile(other_config, "config.json", R"({"model_type": "llamb"})");
  EXPECT_NE(digest(other_config), original);
}

TEST(GgufDigestTest, SeesKeysTypesAndEveryByteOfATensor) {
  const auto digest = [](const GgufImage& image) {
    return (*Checkpoint::Open(WriteFile(NewFolder(), "m.gguf", image.Build())))->digest();
  };
  const auto image = [](uint32_t key, uint32_t type) {
    GgufImage made;
    made.U32("key", key).Tensor("t", {10000}, type, 0);
    made.data = std::string(20000, 'x');
    return made;
  };
  const uint64_t original = digest(image(1, 1));
  EXPECT_EQ(digest(image(1, 1)), original);
  EXPECT_NE(digest(image(2, 1)), original);
  EXPECT_NE(digest(image(1, 30)), original);
  for (size_t i = 0; i < 20000; i += i < 10 ? 1 : 1999) {
    GgufImage changed = image(1, 1);
    changed.data[i] = 'z';
    EXPECT_NE(digest(changed), original) << i;
  }
}

TEST(GgufDigestTest, ALargeTensorIsReadInPieces) {
  const size_t bytes = (size_t{4} << 20) + 12;
  const auto digest = [&](size_t change) {
    GgufImage made;
    made.Tensor("t", {static_cast<uint64_t>(bytes / 2)}, 1, 0);
    made.data = std::string(bytes, 'x');
    made.data[change] = 'y';
    const auto checkpoint = *Checkpoint::Open(WriteFile(NewFolder(), "m.gguf", made.Build()));
    const uint64_t first = checkpoint->digest();
    EXPECT_EQ(checkpoint->digest(), first);
    return first;
  };
  std::set<uint64_t> seen;
  for (const size_t change : {size_t{0}, size_t{4} << 20, (size_t{4} << 20) - 1, bytes - 1}) {
    EXPECT_TRUE(seen.insert(digest(change)).second) << change;
  }
}

}  // namespace
}  // namespace headway
