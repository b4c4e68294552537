"""llama.cpp, told on standard input what to do: one JSON object a line, one answer each.

{"do": "quantise", "from": PATH, "to": PATH, "type": "q4_0"}   makes a file with llama.cpp's own quantiser
{"do": "load", "model": PATH, "threads": N, "context": N, "sequences": N}
{"do": "prefill", "tokens": N}                         -> {"seconds": S}
{"do": "fill", "tokens": N, "sequences": N}            the cache, before decoding
{"do": "decode", "steps": N}                           -> {"seconds": S}; the cache is as before afterwards
{"do": "first_token", "model": PATH, "threads": N, "tokens": N}  load, prompt, one token -> {"seconds": S}
"""

import json
import sys
import time

import llama_cpp as llama


class Peer:
    def __init__(self):
        self.model = self.context = self.batch = None
        self.filled = self.sequences = 0

    def load(self, model, threads, context, sequences=1):
        self.close()
        params = llama.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama.llama_model_load_from_file(model.encode(), params)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {model}")
        params = llama.llama_context_default_params()
        params.n_ctx = context * sequences
        params.n_batch = max(512, context)
        params.n_ubatch = 512
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        self.context = llama.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp cannot make a context")
        self.batch = llama.llama_batch_init(params.n_batch, 0, sequences)
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))

    def close(self):
        if self.batch is not None:
            llama.llama_batch_free(self.batch)
        if self.context:
            llama.llama_free(self.context)
        if self.model:
            llama.llama_model_free(self.model)
        self.model = self.context = self.batch = None

    def memory(self):
        return llama.llama_get_memory(self.context)

    def run(self, rows):
        """rows: (position, sequence, wants logits)"""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (position, sequence, logits) in enumerate(rows):
            batch.token[i] = (position * 7919 + 13) % self.vocabulary
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = logits
        if llama.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        # Waits for what is computed.
        llama.llama_get_logits_ith(self.context, -1)

    def prefill(self, tokens):
        llama.llama_memory_clear(self.memory(), True)
        start = time.perf_counter()
        self.run([(i, 0, i == tokens - 1) for i in range(tokens)])
        return {"seconds": time.perf_counter() - start}

    def fill(self, tokens, sequences=1):
        llama.llama_memory_clear(self.memory(), True)
        for sequence in range(sequences):
            self.run([(i, sequence, i == tokens - 1) for i in range(tokens)])
        self.filled, self.sequences = tokens, sequences
        return {}

    def decode(self, steps):
        start = time.perf_counter()
        for step in range(steps):
            self.run([(self.filled + step, sequence, True) for sequence in range(self.sequences)])
        seconds = time.perf_counter() - start
        for sequence in range(self.sequences):
            llama.llama_memory_seq_rm(self.memory(), sequence, self.filled, -1)
        return {"seconds": seconds}

    def first_token(self, model, threads, tokens):
        start = time.perf_counter()
        self.load(model, threads, 512)
        self.run([(i, 0, i == tokens - 1) for i in range(tokens)])
        logits = llama.llama_get_logits_ith(self.context, -1)
        max(range(self.vocabulary), key=lambda i: logits[i]) if self.vocabulary < 1000 else logits[0]
        return {"seconds": time.perf_counter() - start}

    def quantise(self, source, target, kind):
        params = llama.llama_model_quantize_default_params()
        params.ftype = {"q4_0": llama.LLAMA_FTYPE_MOSTLY_Q4_0, "q8_0": llama.LLAMA_FTYPE_MOSTLY_Q8_0,
                        "f16": llama.LLAMA_FTYPE_MOSTLY_F16, "bf16": llama.LLAMA_FTYPE_MOSTLY_BF16}[kind]
        params.allow_requantize = True
        if llama.llama_model_quantize(source.encode(), target.encode(), params) != 0:
            raise RuntimeError(f"llama.cpp cannot make {target}")
        return {}


def main():
    quiet = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(quiet, None)
    llama.llama_backend_init()
    peer = Peer()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("do")
        if what == "quantise":
            answer = peer.quantise(request["from"], request["to"], request["type"])
        elif what == "load":
            peer.load(**request)
            answer = {}
        else:
            answer = getattr(peer, what)(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
