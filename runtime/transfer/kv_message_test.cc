#include "runtime/transfer/kv_message.h"

#include <random>

#include "gtest/gtest.h"

namespace headway {
namespace {

struct Encoded {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
};

Encoded Encode(KvWireHeader header, size_t payload_bytes, std::vector<uint64_t> digests) {
  Encoded encoded;
  EncodeKvHeader(header, digests, encoded.header);
  encoded.payload.resize(payload_bytes, std::byte{7});
  return encoded;
}

Encoded Example() {
  KvWireHeader header = {.layer = 29,
                         .reservation_id = 0x1122334455667788,
                         .epoch = 9,
                         .kv_head = 2,
                         .target_head = 1,
                         .first_block = 77,
                         .runs = 3,
                         .run_bytes = 40};
  SetKvSource("prefill-0/rank-1", header);
  return Encode(header, 120, {11, 22, 33});
}

TEST(KvMessageTest, WhatIsEncodedIsDecoded) {
  const Encoded encoded = Example();
  const absl::StatusOr<KvMessage> message = DecodeKvMessage(encoded.header, encoded.payload);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->header.layer, 29u);
  EXPECT_EQ(message->header.reservation_id, 0x1122334455667788u);
  EXPECT_EQ(message->header.epoch, 9u);
  EXPECT_EQ(message->header.kv_head, 2u);
  EXPECT_EQ(message->header.target_head, 1u);
  EXPECT_EQ(message->header.first_block, 77u);
  EXPECT_EQ(message->header.runs, 3u);
  EXPECT_EQ(message->source(), "prefill-0/rank-1");
  EXPECT_EQ(message->digest(0), 11u);
  EXPECT_EQ(message->digest(2), 33u);
  EXPECT_EQ(message->run(2).data(), encoded.payload.data() + 80);
  EXPECT_EQ(message->run(2).size(), 40u);
}

// The layout is what other versions and machines read.
TEST(KvMessageTest, LayoutOnTheWire) {
  const Encoded encoded = Example();
  ASSERT_EQ(encoded.header.size(), 80 + 3 * 8u);
  auto byte = [&](size_t at) { return std::to_integer<int>(encoded.header[at]); };
  EXPECT_EQ(byte(0), 'H');
  EXPECT_EQ(byte(1), 'K');
  EXPECT_EQ(byte(2), 'V');
  EXPECT_EQ(byte(3), '1');
  EXPECT_EQ(byte(4), 29);
  EXPECT_EQ(byte(8), 0x88);
  EXPECT_EQ(byte(15), 0x11);
  EXPECT_EQ(byte(16), 9);
  EXPECT_EQ(byte(24), 2);
  EXPECT_EQ(byte(28), 1);
  EXPECT_EQ(byte(32), 77);
  EXPECT_EQ(byte(36), 3);
  EXPECT_EQ(byte(40), 40);
  EXPECT_EQ(byte(48), 'p');
  EXPECT_EQ(byte(80), 11);
  EXPECT_EQ(byte(96), 33);
}

TEST(KvMessageTest, EveryFlippedBitOfTheHeaderIsNoticed) {
  const Encoded encoded = Example();
  for (size_t bit = 0; bit < encoded.header.size() * 8; ++bit) {
    std::vector<std::byte> header = encoded.header;
    header[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(DecodeKvMessage(header, encoded.payload).ok()) << "bit " << bit;
  }
}

TEST(KvMessageTest, EveryOtherLengthIsRefused) {
  const Encoded encoded = Example();
  for (size_t size = 0; size < encoded.header.size(); ++size) {
    EXPECT_FALSE(DecodeKvMessage(std::span(encoded.header).first(size), encoded.payload).ok());
  }
  std::vector<std::byte> longer = encoded.header;
  longer.push_back({});
  EXPECT_FALSE(DecodeKvMessage(longer, encoded.payload).ok());
  for (size_t size : {0, 1, 40, 119, 121, 160}) {
    EXPECT_FALSE(DecodeKvMessage(encoded.header, std::vector<std::byte>(size)).ok()) << size;
  }
}

// With a right check: what a faulty or hostile sender could make.
TEST(KvMessageTest, CountsThatOverflowAreRefused) {
  auto decodes = [](uint32_t runs, uint32_t run_bytes, size_t digests, size_t payload) {
    const Encoded encoded =
        Encode({.runs = runs, .run_bytes = run_bytes}, payload, std::vector<uint64_t>(digests, 1));
    return DecodeKvMessage(encoded.header, encoded.payload).ok();
  };
  EXPECT_TRUE(decodes(2, 16, 2, 32));
  EXPECT_FALSE(decodes(0, 16, 0, 0));
  EXPECT_FALSE(decodes(0xffffffff, 16, 2, 32));
  EXPECT_FALSE(decodes(0x20000001, 16, 1, 16));  // 8 * runs is 8 in 32 bits
  EXPECT_FALSE(decodes(2, 0x80000010, 2, 32));   // 2 * run_bytes is 32 in 32 bits
  EXPECT_FALSE(decodes(kMaxKvMessageRuns + 1, 1, kMaxKvMessageRuns + 1, kMaxKvMessageRuns + 1));
  EXPECT_TRUE(decodes(kMaxKvMessageRuns, 1, kMaxKvMessageRuns, kMaxKvMessageRuns));
}

TEST(KvMessageTest, SourceIsPrintable) {
  KvWireHeader header = {.runs = 1, .run_bytes = 1};
  auto source = [&](std::string_view name) {
    SetKvSource(name, header);
    const Encoded encoded = Encode(header, 1, {1});
    return DecodeKvMessage(encoded.header, encoded.payload)->source();
  };
  EXPECT_EQ(source("a\nb\x1b[31m\xff"), "a?b?[31m?");
  EXPECT_EQ(source(""), "unnamed");
  EXPECT_EQ(source(std::string(100, 'x')), std::string(32, 'x'));
  EXPECT_EQ(source("shorter than before"), "shorter than before");
}

TEST(KvMessageTest, RunsAMessage) {
  EXPECT_EQ(KvMessageRuns(4096), 64);
  EXPECT_EQ(KvMessageRuns(kMaxKvMessageBytes), 1);
  EXPECT_EQ(KvMessageRuns(10 * kMaxKvMessageBytes), 1);
  EXPECT_EQ(KvMessageRuns(1), kMaxKvMessageRuns);
}

}  // namespace
}  // namespace headway
