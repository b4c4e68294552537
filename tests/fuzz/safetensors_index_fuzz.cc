// A Hugging Face folder with two shards. The input: model.safetensors.index.json, NUL, config.json.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/check.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/use_checkpoint.h"

namespace headway::fuzz {
namespace {

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / "fuzz.XXXXXX";
    HEADWAY_CHECK(mkdtemp(path_.data()) != nullptr);
    Write("one.safetensors", Shard(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"));
    Write("two.safetensors", Shard(R"({"b":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})"));
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  void Write(const std::string& name, std::string_view contents) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary | std::ios::trunc);
    file << contents << std::flush;
    HEADWAY_CHECK(file.good());
  }
  const std::string& path() const { return path_; }

 private:
  // With 8 bytes of data.
  static std::string Shard(std::string_view header) {
    std::string length(sizeof(uint64_t), '\0');
    length[0] = static_cast<char>(header.size());
    return length + std::string(header) + "datadata";
  }

  std::string path_;
};

void Open(std::string_view index, std::string_view config) {
  static const Folder folder;
  folder.Write("model.safetensors.index.json", index);
  folder.Write("config.json", config);
  const auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return CheckError(checkpoint.status());
  UseTensors(**checkpoint);
  for (const char* key : {"n", "rope_scaling.factor", "architectures", "a..b", "", "."}) {
    UseKey((*checkpoint)->metadata(), key);
  }
}

}  // namespace
}  // namespace headway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = headway::fuzz::Parts(data, size, 2);
  headway::fuzz::Open(parts[0], parts[1]);
  return 0;
}
