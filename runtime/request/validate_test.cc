#include "runtime/request/validate.h"

#include <functional>
#include <limits>

#include "gtest/gtest.h"

namespace headway {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();

constexpr ModelLimits kLimits = {.vocabulary = 1000, .max_positions = 100, .kv_positions = 80};

GenerateRequest Valid() {
  GenerateRequest request;
  request.id = "r";
  request.prompt = {0, 5, 999};
  request.sampling.max_tokens = 20;
  return request;
}

struct Case {
  std::function<void(GenerateRequest&)> change;
  const char* error;  // "": valid
};

void ExpectEach(const std::vector<Case>& cases, const ModelLimits& limits = kLimits) {
  for (const Case& c : cases) {
    GenerateRequest request = Valid();
    c.change(request);
    const absl::Status status = ValidateGenerate(request, limits);
    EXPECT_EQ(status.ok() ? "" : status.ToString(), c.error);
  }
}

#define SET(field, value) [](GenerateRequest& r) { r.field = value; }

TEST(ValidateTest, NumbersAgainstTheirRanges) {
  ExpectEach({
      {SET(sampling.temperature, 0), ""},
      {SET(sampling.temperature, 100), ""},
      {SET(sampling.temperature, -0.01f),
       "INVALID_ARGUMENT: temperature is -0.01, must be 0 to 100"},
      {SET(sampling.temperature, 100.5f),
       "INVALID_ARGUMENT: temperature is 100.5, must be 0 to 100"},
      {SET(sampling.temperature, kNaN), "INVALID_ARGUMENT: temperature is nan, must be 0 to 100"},
      {SET(sampling.temperature, kInf), "INVALID_ARGUMENT: temperature is inf, must be 0 to 100"},
      {SET(sampling.top_k, 0), ""},
      {SET(sampling.top_k, kMost), ""},
      {SET(sampling.top_k, -1), "INVALID_ARGUMENT: top_k is -1, must be 0 (off) or more"},
      {SET(sampling.top_p, 1), ""},
      {SET(sampling.top_p, 1e-9f), ""},
      {SET(sampling.top_p, 0), "INVALID_ARGUMENT: top_p is 0, must be above 0, at most 1"},
      {SET(sampling.top_p, -1), "INVALID_ARGUMENT: top_p is -1, must be above 0, at most 1"},
      {SET(sampling.top_p, 1.01f), "INVALID_ARGUMENT: top_p is 1.01, must be above 0, at most 1"},
      {SET(sampling.top_p, kNaN), "INVALID_ARGUMENT: top_p is nan, must be above 0, at most 1"},
      {SET(sampling.max_tokens, 1), ""},
      {SET(sampling.max_tokens, 0), "INVALID_ARGUMENT: max_tokens is 0, must be 1 or more"},
      {SET(sampling.max_tokens, kLeast),
       "INVALID_ARGUMENT: max_tokens is -2147483648, must be 1 or more"},
      {SET(sampling.min_tokens, 20), ""},
      {SET(sampling.min_tokens, 21),
       "INVALID_ARGUMENT: min_tokens is 21, must be 0 to max_tokens, which is 20"},
      {SET(sampling.min_tokens, -1),
       "INVALID_ARGUMENT: min_tokens is -1, must be 0 to max_tokens, which is 20"},
      {SET(sampling.logprobs, -1), ""},
      {SET(sampling.logprobs, 20), ""},
      {SET(sampling.logprobs, -2), "INVALID_ARGUMENT: logprobs is -2, must be -1 to 20"},
      {SET(sampling.logprobs, 21), "INVALID_ARGUMENT: logprobs is 21, must be -1 to 20"},
      {SET(sampling.seed, ~uint64_t{0}), ""},
  });
}

TEST(ValidateTest, ListsAndTheirEntries) {
  ExpectEach({
      {SET(id, std::string(128, 'x')), ""},
      {SET(id, std::string(129, 'x')),
       "INVALID_ARGUMENT: request_id has 129 bytes, must have at most 128"},
      {SET(id, "a b"),
       "INVALID_ARGUMENT: request_id[1] is byte 32, must be printable ASCII without spaces"},
      {SET(id, "a\n"),
       "INVALID_ARGUMENT: request_id[1] is byte 10, must be printable ASCII without spaces"},
      {SET(id, "\xc3\xa9"),
       "INVALID_ARGUMENT: request_id[0] is byte 195, must be printable ASCII without spaces"},
      {SET(prompt, {}), "INVALID_ARGUMENT: prompt has 0 tokens, must have at least 1"},
      {SET(prompt, std::vector<int32_t>({3, -1})),
       "INVALID_ARGUMENT: prompt[1] is token -1, the vocabulary has 0 to 999"},
      {SET(prompt, std::vector<int32_t>({1000, 2})),
       "INVALID_ARGUMENT: prompt[0] is token 1000, the vocabulary has 0 to 999"},
      {SET(prompt, std::vector<int32_t>({1, 2, kMost})),
       "INVALID_ARGUMENT: prompt[2] is token 2147483647, the vocabulary has 0 to 999"},
      {SET(stop, std::vector<std::string>(16, "x")), ""},
      {SET(stop, std::vector<std::string>(17, "x")),
       "INVALID_ARGUMENT: stop has 17 entries, must have at most 16"},
      {SET(stop, {std::string(256, 'x')}), ""},
      {SET(stop, std::vector<std::string>({"a", std::string(257, 'x')})),
       "INVALID_ARGUMENT: stop[1] has 257 bytes, must have 1 to 256"},
      {SET(stop, std::vector<std::string>({"a", ""})),
       "INVALID_ARGUMENT: stop[1] has 0 bytes, must have 1 to 256"},
      {SET(sampling.stop_token_ids, std::vector<int32_t>(64, 7)), ""},
      {SET(sampling.stop_token_ids, std::vector<int32_t>(65, 7)),
       "INVALID_ARGUMENT: stop_token_ids has 65 entries, must have at most 64"},
      {SET(sampling.stop_token_ids, std::vector<int32_t>({999, 1000})),
       "INVALID_ARGUMENT: stop_token_ids[1] is token 1000, the vocabulary has 0 to 999"},
  });
}

TEST(ValidateTest, StopStringsNeedATokenizer) {
  ModelLimits limits = kLimits;
  limits.has_tokenizer = false;
  ExpectEach({{[](GenerateRequest&) {}, ""},
              {SET(stop, {"x"}),
               "FAILED_PRECONDITION: stop: the checkpoint has no tokenizer; use stop_token_ids"}},
             limits);
}

// Both numbers, and no clamp: a prompt is never shortened in silence.
TEST(ValidateTest, PositionsOfTheModelAndOfTheCache) {
  const auto with = [](int prompt, int32_t max_tokens) {
    return [=](GenerateRequest& r) {
      r.prompt.assign(static_cast<size_t>(prompt), 1);
      r.sampling.max_tokens = max_tokens;
    };
  };
  const ModelLimits small_cache = kLimits;
  ExpectEach({{with(60, 20), ""},
              {with(79, 1), ""},
              {with(60, 21),
               "RESOURCE_EXHAUSTED: max_tokens is 21, which with the 60 tokens of the prompt makes "
               "81; the KV cache holds 80"},
              {with(80, 1),
               "RESOURCE_EXHAUSTED: max_tokens is 1, which with the 80 tokens of the prompt makes "
               "81; the KV cache holds 80"},
              {with(81, 1), "RESOURCE_EXHAUSTED: prompt has 81 tokens, the KV cache holds 80"},
              {with(60, 41),
               "INVALID_ARGUMENT: max_tokens is 41, which with the 60 tokens of the prompt makes "
               "101; the model's limit is 100 positions"},
              {with(101, 1),
               "INVALID_ARGUMENT: prompt has 101 tokens, the model's limit is 100 positions"}},
             small_cache);
  ModelLimits large_cache = kLimits;
  large_cache.kv_positions = 1'000'000;
  ExpectEach({{with(99, 1), ""},
              {with(100, 1),
               "INVALID_ARGUMENT: max_tokens is 1, which with the 100 tokens of the prompt makes "
               "101; the model's limit is 100 positions"},
              {with(3, kMost),
               "INVALID_ARGUMENT: max_tokens is 2147483647, which with the 3 tokens of the prompt "
               "makes 2147483650; the model's limit is 100 positions"}},
             large_cache);
}

// One rule around the limit: the prompt and what is asked for must fit together, and one token at
// least is asked for.
TEST(ValidateTest, PromptsAroundTheLimit) {
  const ModelLimits limits = {.vocabulary = 10, .max_positions = 16, .kv_positions = 1000};
  for (const int prompt : {10, 14, 15, 16, 17}) {
    for (const int32_t max_tokens : {kLeast, -1, 0, 1, 2, 10, kMost}) {
      GenerateRequest request = Valid();
      request.prompt.assign(static_cast<size_t>(prompt), 1);
      request.sampling.max_tokens = max_tokens;
      const absl::Status status = ValidateGenerate(request, limits);
      const bool fits = max_tokens >= 1 && int64_t{prompt} + max_tokens <= 16;
      EXPECT_EQ(status.code(), fits ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument)
          << prompt << " + " << max_tokens << ": " << status;
    }
  }
  const auto asked = [](int prompt, int32_t max_tokens) {
    GenerateRequest request = Valid();
    request.prompt.assign(static_cast<size_t>(prompt), 1);
    request.sampling.max_tokens = max_tokens;
    return ValidateGenerate(request,
                            {.vocabulary = 10, .max_positions = 128000, .kv_positions = 128000});
  };
  EXPECT_TRUE(asked(62466, 65534).ok());
  EXPECT_EQ(asked(62466, 65535).message(),
            "max_tokens is 65535, which with the 62466 tokens of the prompt makes 128001; the "
            "model's limit is 128000 positions");
}

TEST(ValidateTest, Score) {
  const auto error = [](std::vector<int32_t> tokens, int32_t top, const std::string& id = "") {
    const absl::Status status =
        ValidateScore({.id = id, .tokens = std::move(tokens), .top = top}, kLimits);
    return status.ok() ? "" : status.ToString();
  };
  EXPECT_EQ(error({1, 2}, 0), "");
  EXPECT_EQ(error(std::vector<int32_t>(80, 1), 20), "");
  EXPECT_EQ(error({1}, 0), "INVALID_ARGUMENT: prompt has 1 tokens, must have at least 2");
  EXPECT_EQ(error({1, 1000}, 0),
            "INVALID_ARGUMENT: prompt[1] is token 1000, the vocabulary has 0 to 999");
  EXPECT_EQ(error({1, 2}, -1), "INVALID_ARGUMENT: top is -1, must be 0 to 20");
  EXPECT_EQ(error({1, 2}, 21), "INVALID_ARGUMENT: top is 21, must be 0 to 20");
  EXPECT_EQ(error(std::vector<int32_t>(81, 1), 0),
            "RESOURCE_EXHAUSTED: prompt has 81 tokens, the KV cache holds 80");
  EXPECT_EQ(error(std::vector<int32_t>(101, 1), 0),
            "INVALID_ARGUMENT: prompt has 101 tokens, the model's limit is 100 positions");
  EXPECT_EQ(error({1, 2}, 0, std::string(200, 'x')),
            "INVALID_ARGUMENT: request_id has 200 bytes, must have at most 128");
}

TEST(ValidateTest, DefaultMaxTokensFitsWhereAnythingFits) {
  EXPECT_EQ(DefaultMaxTokens(3, {.max_positions = 8192, .kv_positions = 4096}), 128);
  EXPECT_EQ(DefaultMaxTokens(4000, {.max_positions = 8192, .kv_positions = 4096}), 96);
  EXPECT_EQ(DefaultMaxTokens(4000, {.max_positions = 4010, .kv_positions = 4096}), 10);
  EXPECT_EQ(DefaultMaxTokens(5000, {.max_positions = 4010, .kv_positions = 4096}), 1);
  GenerateRequest request = Valid();
  request.sampling.max_tokens = DefaultMaxTokens(3, kLimits);
  EXPECT_TRUE(ValidateGenerate(request, kLimits).ok());
}

TEST(FinishReasonTest, Names) {
  EXPECT_STREQ(FinishReasonName(FinishReason::kNone), "");
  EXPECT_STREQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_STREQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_STREQ(FinishReasonName(FinishReason::kCancelled), "cancelled");
}

}  // namespace
}  // namespace headway
