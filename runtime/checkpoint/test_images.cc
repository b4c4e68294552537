#include "runtime/checkpoint/test_images.h"

#include <cstdlib>
#include <fstream>

#include "gtest/gtest.h"
#include "runtime/base/check.h"

namespace headway {

std::string GgufString(std::string_view text) {
  return Raw<uint64_t>(text.size()) + std::string(text);
}

GgufImage& GgufImage::Key(std::string_view name, GgufType type, std::string_view value) {
  keys += GgufString(name) + Raw(static_cast<uint32_t>(type)) + std::string(value);
  ++key_count;
  return *this;
}

GgufImage& GgufImage::U32(std::string_view name, uint32_t value) {
  return Key(name, GgufType::kUint32, Raw(value));
}

GgufImage& GgufImage::Text(std::string_view name, std::string_view value) {
  return Key(name, GgufType::kString, GgufString(value));
}

GgufImage& GgufImage::Array(std::string_view name, GgufType type, uint64_t count,
                            std::string_view elements) {
  return Key(name, GgufType::kArray,
             Raw(static_cast<uint32_t>(type)) + Raw(count) + std::string(elements));
}

GgufImage& GgufImage::Tensor(std::string_view name, const std::vector<uint64_t>& dimensions,
                             uint32_t type, uint64_t offset) {
  tensors += GgufString(name) + Raw(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t n : dimensions) tensors += Raw(n);
  tensors += Raw(type) + Raw(offset);
  ++tensor_count;
  return *this;
}

std::string GgufImage::Build() const {
  std::string image = magic + Raw(version) + Raw(tensor_count) + Raw(key_count) + keys + tensors;
  if (!data.empty()) image.resize((image.size() + alignment - 1) / alignment * alignment, '\0');
  return image + data;
}

GgufImage SmallGguf() {
  GgufImage image;
  image.Text("general.architecture", "llama")
      .Key("u8", GgufType::kUint8, Raw<uint8_t>(200))
      .Key("i8", GgufType::kInt8, Raw<int8_t>(-100))
      .Key("u16", GgufType::kUint16, Raw<uint16_t>(60000))
      .Key("i16", GgufType::kInt16, Raw<int16_t>(-30000))
      .U32("u32", 4000000000u)
      .Key("i32", GgufType::kInt32, Raw<int32_t>(-2000000000))
      .Key("f32", GgufType::kFloat32, Raw(0.1f))
      .Key("yes", GgufType::kBool, Raw<uint8_t>(1))
      .Key("no", GgufType::kBool, Raw<uint8_t>(0))
      .Key("u64", GgufType::kUint64, Raw(uint64_t{1} << 40))
      .Key("u64.most", GgufType::kUint64, Raw(~uint64_t{0}))
      .Key("i64", GgufType::kInt64, Raw<int64_t>(-5000000000))
      .Key("f64", GgufType::kFloat64, Raw(0.1))
      .Array("texts", GgufType::kString, 3, GgufString("a") + GgufString("") + GgufString("cd"))
      .Array("ints", GgufType::kInt16, 3, Raw<int16_t>(7) + Raw<int16_t>(-8) + Raw<int16_t>(9))
      .Array("bools", GgufType::kBool, 2, Raw<uint8_t>(1) + Raw<uint8_t>(0))
      .Array("floats", GgufType::kFloat32, 2, Raw(0.5f) + Raw(-2.0f))
      .Array("none", GgufType::kUint32, 0, "")
      // [[1, 2], []] and [["x"]]
      .Array("nested", GgufType::kArray, 2,
             Raw(static_cast<uint32_t>(GgufType::kUint8)) + Raw<uint64_t>(2) + "\1\2" +
                 Raw(static_cast<uint32_t>(GgufType::kUint8)) + Raw<uint64_t>(0))
      .Array("nested.texts", GgufType::kArray, 1,
             Raw(static_cast<uint32_t>(GgufType::kString)) + Raw<uint64_t>(1) + GgufString("x"))
      .Tensor("norm", {5}, /*F32*/ 0, 0)
      .Tensor("linear", {64, 3}, /*Q4_1*/ 3, 32)
      .Tensor("last", {2, 3}, /*F16*/ 1, 160);
  image.data.resize(172);
  for (size_t i = 0; i < image.data.size(); ++i) image.data[i] = static_cast<char>(i * 37);
  return image;
}

std::string SafetensorsImage(std::string_view header, std::string_view data) {
  return Raw<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

std::string WriteFile(const std::string& folder, std::string_view name, std::string_view contents) {
  const std::string path = folder + "/" + std::string(name);
  std::ofstream file(path, std::ios::binary);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  HEADWAY_CHECK(file.good());
  return path;
}

std::string NewFolder() {
  std::string name = testing::TempDir() + "/checkpoint.XXXXXX";
  HEADWAY_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

}  // namespace headway
