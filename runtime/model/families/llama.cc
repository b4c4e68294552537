#include "runtime/model/families/llama.h"

namespace headway {
namespace {

using Must = FixedSetting::Must;

constexpr FixedSetting kGgufFixed[] = {
    {"llama.expert_count", Must::kBeZero, "", "mixtures of experts cannot be served"},
    {"llama.attention.causal", Must::kBeTrue, "", "only causal attention can be served"},
};

constexpr FixedSetting kHuggingFaceFixed[] = {
    {"hidden_act", Must::kBeText, "silu", "other activations cannot be served"},
    {"num_local_experts", Must::kBeZero, "", "mixtures of experts cannot be served"},
    {"quantization_config", Must::kBeAbsent, "",
     "quantised weights are served from GGUF files only"},
};

constexpr std::string_view kGgufEndTokens[] = {
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
};
constexpr std::string_view kHuggingFaceEndTokens[] = {"eos_token_id"};

}  // namespace

const Family kLlamaFamily = {
    .name = "llama",
    .gguf_architecture = "llama",
    .hugging_face_class = "LlamaForCausalLM",
    .hugging_face_type = "llama",
    .gguf =
        {
            .keys =
                {
                    .layers = "llama.block_count",
                    .hidden = "llama.embedding_length",
                    .intermediate = "llama.feed_forward_length",
                    .query_heads = "llama.attention.head_count",
                    .kv_heads = "llama.attention.head_count_kv",
                    .head_dim = "llama.attention.key_length",
                    .value_head_dim = "llama.attention.value_length",
                    .vocabulary = "llama.vocab_size",
                    .max_positions = "llama.context_length",
                    .rms_epsilon = "llama.attention.layer_norm_rms_epsilon",
                    .sliding_window = "llama.attention.sliding_window",
                    .end_tokens = kGgufEndTokens,
                },
            .tensors =
                {
                    .embedding = "token_embd",
                    .final_norm = "output_norm",
                    .lm_head = "output",
                    .layer_prefix = "blk.",
                    .attention_norm = "attn_norm",
                    .q = "attn_q",
                    .k = "attn_k",
                    .v = "attn_v",
                    .attention_output = "attn_output",
                    .mlp_norm = "ffn_norm",
                    .gate = "ffn_gate",
                    .up = "ffn_up",
                    .down = "ffn_down",
                },
            .fixed = kGgufFixed,
            .rope_rows_interleaved = true,
        },
    .hugging_face =
        {
            .keys =
                {
                    .layers = "num_hidden_layers",
                    .hidden = "hidden_size",
                    .intermediate = "intermediate_size",
                    .query_heads = "num_attention_heads",
                    .kv_heads = "num_key_value_heads",
                    .head_dim = "head_dim",
                    .vocabulary = "vocab_size",
                    .max_positions = "max_position_embeddings",
                    .rms_epsilon = "rms_norm_eps",
                    .tied_embedding = "tie_word_embeddings",
                    .attention_bias = "attention_bias",
                    .mlp_bias = "mlp_bias",
                    .sliding_window = "sliding_window",
                    .use_sliding_window = "use_sliding_window",
                    .end_tokens = kHuggingFaceEndTokens,
                },
            .tensors =
                {
                    .embedding = "model.embed_tokens",
                    .final_norm = "model.norm",
                    .lm_head = "lm_head",
                    .layer_prefix = "model.layers.",
                    .attention_norm = "input_layernorm",
                    .q = "self_attn.q_proj",
                    .k = "self_attn.k_proj",
                    .v = "self_attn.v_proj",
                    .attention_output = "self_attn.o_proj",
                    .mlp_norm = "post_attention_layernorm",
                    .gate = "mlp.gate_proj",
                    .up = "mlp.up_proj",
                    .down = "mlp.down_proj",
                },
            .fixed = kHuggingFaceFixed,
        },
};

}  // namespace headway
