#include "runtime/text/tokenizer_json.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headway::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer.json with one member replaced.
std::string With(const std::string& key, const std::string& value) {
  std::string text = "{";
  for (const auto& [k, v] :
       {std::pair<std::string, std::string>("normalizer", "null"),
        {"pre_tokenizer", R"({"type":"ByteLevel","add_prefix_space":false})"},
        {"post_processor", "null"},
        {"added_tokens", R"([{"id":3,"content":"<s>","special":true},
                             {"id":5,"content":"<t>","special":false,"rstrip":true}])"},
        {"model", R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})"}}) {
    if (text.size() > 1) text += ",";
    text += "\"" + k + "\":" + (k == key ? value : v);
  }
  return text + "}";
}

TEST(TokenizerJsonTest, ReadsEverything) {
  const auto spec = ParseTokenizerJson(
      With("model", R"({"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":1,"ab":2},
                        "merges":[["a","b"]]})"),
      R"({"bos_token":"<s>","eos_token":{"content":"<t>"},"add_bos_token":true})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->tokens, ElementsAre("a", "b", "ab", "<s>", "", "<t>"));
  EXPECT_THAT(spec->merges, ElementsAre("a b"));
  ASSERT_EQ(spec->splits.size(), 1u);
  EXPECT_THAT(spec->splits[0].pattern, HasSubstr("'ll"));
  ASSERT_EQ(spec->added_tokens.size(), 2u);
  EXPECT_TRUE(spec->added_tokens[0].special);
  EXPECT_FALSE(spec->added_tokens[1].special);
  EXPECT_TRUE(spec->added_tokens[1].rstrip);
  EXPECT_TRUE(spec->ignore_merges);
  EXPECT_FALSE(spec->normalize_nfc);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_EQ(spec->bos_id, 3);
  EXPECT_EQ(spec->eos_id, 5);
  EXPECT_THAT(spec->end_ids, ElementsAre(5));
}

TEST(TokenizerJsonTest, ReadsSequences) {
  const auto spec = ParseTokenizerJson(With("pre_tokenizer", R"({"type":"Sequence","pretokenizers":[
             {"type":"Digits","individual_digits":true},
             {"type":"Split","pattern":{"String":"a.b"},"behavior":"Isolated"},
             {"type":"Split","pattern":{"Regex":"x+"},"behavior":"Removed","invert":true},
             {"type":"Punctuation","behavior":"Contiguous"},
             {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})"),
                                       "");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->splits.size(), 4u);
  EXPECT_EQ(spec->splits[0].pattern, "\\p{N}");
  EXPECT_EQ(spec->splits[1].pattern, "a\\.b");
  EXPECT_TRUE(spec->splits[2].drop_gaps);
  EXPECT_FALSE(spec->add_bos);
  EXPECT_EQ(spec->bos_id, std::nullopt);
}

TEST(TokenizerJsonTest, ThePostProcessorAsksForBos) {
  const std::string json =
      With("post_processor", R"({"type":"Sequence","processors":[{"type":"ByteLevel"},
             {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
              {"Sequence":{"id":"A","type_id":0}}]}]})");
  EXPECT_TRUE(ParseTokenizerJson(json, "")->add_bos);
  EXPECT_EQ(ParseTokenizerJson(json, "")->bos_id, 3);
  EXPECT_TRUE(ParseTokenizerJson(json, R"({"bos_token":"<s>"})")->add_bos);
  EXPECT_FALSE(ParseTokenizerJson(json, R"({"bos_token":"<s>","add_bos_token":false})")->add_bos);
  EXPECT_EQ(ParseTokenizerJson(json, R"({"bos_token":"<t>"})").status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(TokenizerJsonTest, NamesWhatIsNotSupported) {
  for (const auto& [key, value, what] : {
           std::tuple("model", R"({"type":"Unigram"})", "Unigram"),
           std::tuple("model", R"({"type":"BPE","byte_fallback":true})", "byte_fallback"),
           std::tuple("model", R"({"type":"BPE","end_of_word_suffix":"</w>"})", "end_of_word"),
           std::tuple("normalizer", R"({"type":"Prepend"})", "Prepend"),
           std::tuple("normalizer", R"({"type":"Sequence","normalizers":[{"type":"NFKC"}]})",
                      "NFKC"),
           std::tuple("pre_tokenizer", "null", "ByteLevel"),
           std::tuple("pre_tokenizer", R"({"type":"Metaspace"})", "Metaspace"),
           std::tuple("pre_tokenizer", R"({"type":"ByteLevel","add_prefix_space":true})",
                      "add_prefix_space"),
           std::tuple("pre_tokenizer",
                      R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"MergedWithNext"})",
                      "MergedWithNext"),
           std::tuple("pre_tokenizer", R"({"type":"Sequence","pretokenizers":[
                        {"type":"ByteLevel","add_prefix_space":false},{"type":"Digits"}]})",
                      "after ByteLevel"),
       }) {
    const absl::Status status = ParseTokenizerJson(With(key, value), "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST(TokenizerJsonTest, RefusesMalformedFiles) {
  for (const std::string& json :
       {std::string(), std::string("[]"), std::string("{\"model\":"), std::string("null"),
        With("model", R"({"type":"BPE","vocab":[],"merges":[]})"),
        With("model", R"({"type":"BPE","vocab":{},"merges":[]})"),
        With("model", R"({"type":"BPE","vocab":{"a":-1},"merges":[]})"),
        With("model", R"({"type":"BPE","vocab":{"a":4000000000},"merges":[]})"),
        With("model", R"({"type":"BPE","vocab":{"a":"x"},"merges":[]})"),
        With("model", R"({"type":"BPE","vocab":{"a":0},"merges":{}})"),
        With("model", R"({"type":"BPE","vocab":{"a":0},"merges":[["a"]]})"),
        With("added_tokens", R"([{"content":"x"}])"), With("added_tokens", R"([7])"),
        With("pre_tokenizer", R"({"type":"Split","pattern":7,"behavior":"Isolated"})")}) {
    EXPECT_EQ(ParseTokenizerJson(json, "").status().code(), absl::StatusCode::kInvalidArgument)
        << json;
  }
  EXPECT_FALSE(ParseTokenizerJson(With("", ""), "[]").ok());
  EXPECT_FALSE(ParseTokenizerJson(With("", ""), R"({"bos_token":"nope"})").ok());
}

// An id alone must not claim memory: the largest one that a vocabulary may have takes half a GB.
TEST(TokenizerJsonTest, RefusesIdsOutOfProportionToTheFile) {
  for (const std::string& json :
       {With("model", R"({"type":"BPE","vocab":{"a":16777215},"merges":[]})"),
        With("added_tokens", R"([{"id":16777215,"content":"x"}])")}) {
    const absl::Status status = ParseTokenizerJson(json, "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("has id 16777215, not in [0, " + std::to_string(json.size()) + "]"));
  }
  const std::string gaps = With("added_tokens", R"([{"id":100,"content":"x"}])");
  EXPECT_EQ(ParseTokenizerJson(gaps, "")->tokens.size(), 101u);
}

TEST(TokenizerJsonTest, FindsTheChatTemplate) {
  EXPECT_EQ(*ChatTemplateFromConfig(R"({"chat_template":"{{ x }}"})"), "{{ x }}");
  EXPECT_EQ(*ChatTemplateFromConfig(R"({"chat_template":[{"name":"rag","template":"r"},
                                        {"name":"default","template":"d"}]})"),
            "d");
  EXPECT_EQ(ChatTemplateFromConfig("{}").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ChatTemplateFromConfig("{").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headway::text
