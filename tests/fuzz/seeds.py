#!/usr/bin/python3
"""Writes the inputs that the fuzz targets start from.

    seeds.py FOLDER     makes FOLDER/TARGET/NAME and FOLDER/TARGET.dict
    seeds.py --list     names the targets

Each is small and valid, so that a target gets behind the first check; a dictionary holds the words of a target's seeds.
The same files every time.
"""
import json
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
# chat_template_fuzz.cc looks for it in trusted text.
MARK = "\ue000"


def dense(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parts(*texts):
    return "\0".join(texts).encode()


# GGUF: each scalar type by its number and its layout.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_text(value)
    if kind == ARRAY:
        element, values = value
        return struct.pack("<IQ", element, len(values)) + b"".join(gguf_value(element, each) for each in values)
    return struct.pack("<" + SCALARS[kind], value)


def gguf(keys, tensors, version=3, alignment=32):
    """keys: (name, type, value); tensors: (name, extents innermost first, type, bytes)."""
    image = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        image += gguf_text(name) + struct.pack("<I", kind) + gguf_value(kind, value)
    data = b""
    for name, extents, kind, content in tensors:
        data += b"\0" * (-len(data) % alignment)
        image += gguf_text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, len(data))
        data += content
    return image + b"\0" * (-len(image) % alignment) + data


def gguf_seeds():
    scalars = [(f"s.{kind}", kind, True if kind == 7 else 7) for kind in SCALARS]
    arrays = [(f"a.{kind}", ARRAY, (kind, [1, 0])) for kind in SCALARS]
    llama = [("general.architecture", STRING, "llama"), ("llama.block_count", 4, 2),
             ("llama.rope.freq_base", 6, 1e4)]
    return {
        "empty": gguf([], []),
        "scalars": gguf(llama + scalars, []),
        "arrays": gguf(arrays + [("texts", ARRAY, (STRING, ["a", "", "é"])), ("none", ARRAY, (4, [])),
                                 ("nested", ARRAY, (ARRAY, [(0, [1, 2]), (STRING, ["x"])]))], []),
        "tensors": gguf(llama, [("norm", [5], 0, bytes(20)), ("q8", [32, 2], 8, bytes(68)), ("q4", [64, 3], 3, bytes(120)),
                                ("q40", [32], 2, bytes(18)), ("half", [2, 3], 1, bytes(12)), ("bf16", [2, 2], 30, bytes(8)),
                                ("q6k", [256], 14, bytes(210)), ("unknown", [3], 99, bytes(3))]),
        "version2": gguf(llama, [("w", [1], 0, bytes(4))], version=2),
        "alignment": gguf([("general.alignment", 4, 8)], [("a", [1], 0, bytes(4)), ("b", [1], 0, bytes(4))], alignment=8),
        "split": gguf([("split.count", 2, 3)], []),
    }


def safetensors(header, data):
    text = dense(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_seeds():
    def entry(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    kinds = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1}
    header, end = {}, 0
    for kind, size in kinds.items():
        header[kind.lower()] = entry(kind, [size], end, end + size * size)
        end += size * size
    return {
        "empty": safetensors({}, b""),
        "one": safetensors({"__metadata__": {"format": "pt"}, "w": entry("F32", [1, 2], 0, 8)}, bytes(8)),
        "two": safetensors({"a": entry("F16", [3], 2, 8), "b": entry("BF16", [], 0, 2), "none": entry("F32", [0, 7], 8, 8)},
                           bytes(8)),
        "kinds": safetensors(header, bytes(end)),
        "golden": (GOLDEN / "quants" / "Q4_0.safetensors").read_bytes(),
    }


def safetensors_index_seeds():
    config = dense({"architectures": ["LlamaForCausalLM"], "n": 3, "rope_scaling": {"factor": 2.5, "type": None}})
    both = {"metadata": {"total_size": 16}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    return {
        "both": parts(dense(both), config),
        "one": parts(dense({"weight_map": {"a": "one.safetensors"}}), dense({"n": [1, 2.5, "x", True, None]})),
        "missing": parts(dense({"weight_map": {"b": "three.safetensors"}}), "{}"),
        "outside": parts(dense({"weight_map": {"a": "../one.safetensors"}}), config),
        "golden": parts(dense(both), (GOLDEN / "models" / "llama_rope_yarn" / "config.json").read_text()),
    }


VOCABULARY = ["<s>", "</s>", "<|im_end|>", "Ġ", "a", "b", "c", "ab", "abc", "1", "Ã", "©", "Ã©", "Ċ", "!", "é"]
MERGES = ["a b", "ab c", "Ã ©"]
TEXT = "abc 11 <|im_end|>é</s>\n  a!b  ab"


def tokenizer_gguf_seeds():
    def keys(pre, **more):
        ggml = {"model": "gpt2", "pre": pre, "tokens": VOCABULARY, "merges": MERGES,
                "token_type": [3, 3, 3] + [1] * 12 + [4], "bos_token_id": 0, "eos_token_id": 1, "add_bos_token": True} | more
        return dense({"tokenizer": {"ggml": ggml, "chat_template": "{{ messages[0].content }}"}})
    seeds = {pre: parts(keys(pre), TEXT) for pre in
             ("gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "falcon", "deepseek-coder", "unknown")}
    seeds["ends"] = parts(keys("gpt2", eot_token_id=2, eom_token_id=2, add_bos_token=False), TEXT)
    seeds["none"] = parts("{}", TEXT)
    seeds["sentencepiece"] = parts(keys("default", model="llama"), TEXT)
    return seeds


def tokenizer_json_seeds():
    def tokenizer(pre_tokenizer, normalizer=None, post_processor=None, **model):
        added = [{"id": i, "content": VOCABULARY[i], "special": i < 3, "lstrip": i == 1, "rstrip": i == 1,
                  "single_word": i == 15, "normalized": False} for i in (0, 1, 2, 15)]
        return dense({"added_tokens": added, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
                      "post_processor": post_processor,
                      "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(VOCABULARY)},
                                "merges": MERGES} | model})
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    plain = byte_level | {"use_regex": False}

    def split(pattern, **more):
        steps = [{"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False} | more, plain]
        return {"type": "Sequence", "pretokenizers": steps}
    config = dense({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": True,
                    "chat_template": [{"name": "default", "template": "{{ bos_token }}"}]})
    bos = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                    {"Sequence": {"id": "A", "type_id": 0}}]}
    golden = json.loads((GOLDEN / "text" / "tokenizer.json").read_text())
    return {
        "byte_level": parts(tokenizer(byte_level), config, TEXT),
        "nfc": parts(tokenizer(byte_level, {"type": "Sequence", "normalizers": [{"type": "NFC"}]}), "", TEXT + "e\u0301"),
        "bos": parts(tokenizer(byte_level, post_processor={"type": "Sequence", "processors": [byte_level, bos]}), "", TEXT),
        "regex": parts(tokenizer(split({"Regex": r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"}),
                                 ignore_merges=True), config, TEXT),
        "literal": parts(tokenizer(split({"String": "a"}, behavior="Removed", invert=True)), config, TEXT),
        "steps": parts(tokenizer({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"}, byte_level]}),
            dense({"chat_template": "x"}), TEXT),
        "pairs": parts(tokenizer(byte_level, merges=[merge.split(" ") for merge in MERGES]), config, TEXT),
        "golden": parts(dense(golden), (GOLDEN / "text" / "tokenizer_config.json").read_text(), TEXT),
    }


def chat_template_seeds():
    messages = [{"role": "system", "content": f"s{MARK}"}, {"role": "user", "content": f" {MARK} <b>\n1.5 "},
                {"role": "assistant", "content": None, "reasoning": MARK,
                 "tool_calls": [{"function": {"name": MARK, "arguments": {MARK: [1, 2.5, True, None, MARK]}}}]}]
    conversation = {"messages": messages, "tools": [{"type": "function", "function": {"name": f"f{MARK}"}}],
                    "documents": [{"title": MARK}], "variables": {"x": MARK, "n": 3, "list": [3, 1, 2]}}
    chat = ("{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') | trim + eos_token }}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
    seeds = {"chat": parts(chat, dense(conversation)), "text": parts("{{ x }} {{ messages | tojson }}", dense(conversation))}
    for case in json.loads((GOLDEN / "text" / "jinja.json").read_text())["cases"]:
        # The variables of these cases, beside a conversation.
        variables = case.get("vars", {})
        own = {name: variables.get(name, conversation.get(name)) for name in ("messages", "tools", "documents")}
        seeds["jinja_" + case["name"]] = parts(case["template"], dense(own | {"variables": variables}))
    for case in json.loads((GOLDEN / "text" / "hostile.json").read_text())["cases"]:
        if len(case["template"]) < 1000:
            seeds["hostile_" + case["name"]] = parts(case["template"], dense(conversation))
    return seeds


def generate_request_seeds():
    def encoded(text):
        return subprocess.run(["protoc", f"--proto_path={ROOT}", "--encode=headway.v1.GenerateRequest",
                               str(ROOT / "proto/headway/v1/inference.proto")],
                              input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    return {
        "text": encoded('prompt { text: "Hello <|end|>" } request_id: "r"'),
        "ids": encoded("prompt { token_ids { ids: [1, 2, 258, 0] } } options { max_tokens: 3 ignore_eos: true }"),
        "chat": encoded('prompt { chat { messages { role: "system" content: "x" } '
                        'messages { role: "user" content: "<|turn|>\\303\\251" } } }'),
        "options": encoded('prompt { text: "abcabd\\303\\251." } options { temperature: 0.7 top_k: 5 top_p: 0.9 seed: 7 '
                           'max_tokens: 20 min_tokens: 2 stop: "bd" stop: "abd\\303\\251" stop_token_ids: [3, 258] '
                           'logprobs: 2 include_stop_string: true include_control_tokens: true trace: true }'),
        "range": encoded('prompt { text: "a" } options { temperature: nan top_p: 0 max_tokens: -1 logprobs: 21 }'),
        "nothing": encoded(""),
    }


SEEDS = {
    "gguf": gguf_seeds,
    "safetensors": safetensors_seeds,
    "safetensors_index": safetensors_index_seeds,
    "tokenizer_gguf": tokenizer_gguf_seeds,
    "tokenizer_json": tokenizer_json_seeds,
    "chat_template": chat_template_seeds,
    "generate_request": generate_request_seeds,
}


def dictionary(seeds):
    """The words of the seeds, and what stands between them, in libFuzzer's form."""
    words = set()
    for seed in seeds.values():
        words.update(re.findall(rb"[A-Za-z_][A-Za-z_.]+|<\|\w+\|>|[{}%#=<>!*/-]{2}-?", seed))
    escaped = (word.decode("latin-1").replace("\\", "\\\\") for word in sorted(words) if len(word) <= 32)
    return "".join(f'"{word}"\n' for word in escaped)


def main(folder):
    for target, make in SEEDS.items():
        seeds = make()
        into = pathlib.Path(folder) / target
        into.mkdir(parents=True)
        for name, seed in seeds.items():
            (into / name).write_bytes(seed)
        pathlib.Path(folder, f"{target}.dict").write_text(dictionary(seeds), encoding="latin-1")


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(SEEDS))
    else:
        main(sys.argv[1])
