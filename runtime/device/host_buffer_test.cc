#include "runtime/device/host_buffer.h"

#include <algorithm>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway {
namespace {

TEST(HostBufferTest, IsZeroedAlignedAndWritableToTheLastByte) {
  for (size_t bytes :
       {size_t{1}, size_t{4095}, size_t{4097}, size_t{2} << 20, (size_t{5} << 20) + 3}) {
    auto buffer = HostBuffer::Allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 4096, 0u);
    EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(buffer->data(), bytes, std::byte{7});
    EXPECT_EQ(buffer->As<unsigned char>()[bytes - 1], 7);
  }
}

TEST(HostBufferTest, NothingIsAnEmptyBuffer) {
  auto buffer = HostBuffer::Allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->size(), 0u);
}

TEST(HostBufferTest, TooMuchIsRefusedWithTheSize) {
  for (size_t bytes : {SIZE_MAX, SIZE_MAX / 4}) {
    auto buffer = HostBuffer::Allocate(bytes);
    EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(buffer.status().message()), testing::HasSubstr(std::to_string(bytes)));
  }
}

TEST(HostBufferTest, MovesOwnership) {
  auto a = HostBuffer::Allocate(100);
  auto b = HostBuffer::Allocate(5000);
  ASSERT_TRUE(a.ok() && b.ok());
  std::byte* first = a->data();
  HostBuffer moved = *std::move(a);
  EXPECT_EQ(moved.data(), first);
  *b = std::move(moved);
  EXPECT_EQ(b->data(), first);
  EXPECT_EQ(b->size(), 100u);
}

}  // namespace
}  // namespace headway
