"""The table of tests/bench/versus_llama_cpp: each row is measured in pairs, Headway and llama.cpp in turn."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CORES = 2


class Peer:
    """llama.cpp in a process of its own (peer.py)."""

    def __init__(self, python):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py")
        self.process = subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"versus_llama_cpp: llama.cpp ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, what, **request):
        self.process.stdin.write(json.dumps({"do": what, **request}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Headway:
    def __init__(self, binary, model):
        self.binary, self.model = binary, model

    def bench(self, *flags, **options):
        """Rows of one run of `headway bench`, without those that `flags` do not ask for."""
        command = [self.binary, "bench", "--model", options.get("model", self.model), "--json", *flags]
        for flag, value in (("--repeats", "1"), ("--prefill", "0"), ("--batch", "0"), ("--long-context", "0")):
            if flag not in flags:
                command += [flag, value]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"versus_llama_cpp: {' '.join(command)}: {done.stderr.strip()}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def rate(self, *flags, **options):
        return self.bench(*flags, **options)[-1]["tokens_per_second"]

    def first_token(self, threads, tokens):
        start = time.perf_counter()
        subprocess.run([self.binary, "bench", "--model", self.model, "--first-token", str(tokens), "--threads", str(threads)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    def serve(self, topology, threads, streams, tokens):
        """Tokens a second of `streams` clients of a cluster, all at once."""
        cluster = subprocess.Popen([self.binary, "up", "--model", self.model, "--topology", topology, "--threads", str(threads),
                                    "--quiet", "--json", "--stop-on-eof", "--kv-blocks", "512"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            address = json.loads(cluster.stdout.readline())["router"]
            ask = [self.binary, "generate", "--address", address, "--prompt-ids",
                   ",".join(str(17 + 7 * i) for i in range(32)), "--ignore-eos", "--json", "--max-tokens"]

            def run(count, most):
                clients = [subprocess.Popen(ask + [str(most)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                           for _ in range(count)]
                outputs = [client.communicate()[0] for client in clients]
                if any(client.returncode for client in clients):
                    raise SystemExit("versus_llama_cpp: a client failed")
                return [json.loads(output) for output in outputs]

            run(1, 2)
            start = time.perf_counter()
            run(streams, tokens)
            return streams * tokens / (time.perf_counter() - start)
        finally:
            cluster.stdin.close()
            cluster.wait()


class Table:
    def __init__(self, args):
        self.args = args
        self.headway = Headway(args.headway, args.model)
        self.rows = []

    def ratios(self, name, ours, theirs, least):
        """Interleaved pairs; `theirs`: {column: function}; `least`: {column: ratio}. Functions give tokens a second."""
        mine, others, pairs = [], {column: [] for column in theirs}, {column: [] for column in theirs}
        for _ in range(self.args.pairs):
            mine.append(ours())
            for column, measure in theirs.items():
                others[column].append(measure())
                pairs[column].append(mine[-1] / others[column][-1])
            print(".", end="", file=sys.stderr, flush=True)
        print(f" {name}", file=sys.stderr, flush=True)
        row = {"row": name, "headway": statistics.median(mine)}
        for column in theirs:
            row[column] = {"rate": statistics.median(others[column]), "ratio": statistics.median(pairs[column]),
                           "ratios": sorted(pairs[column]), "least": least.get(column)}
        self.rows.append(row)
        self.show(row)

    @staticmethod
    def show(row):
        text = f"{row['row']:<58} {row['headway']:>9.1f}"
        for column, cell in row.items():
            if not isinstance(cell, dict):
                continue
            verdict = ""
            if cell["least"] is not None:
                verdict = f" (at least {cell['least']:g}: {'met' if cell['ratio'] >= cell['least'] else 'NOT MET'})"
            text += f"   {column} {cell['rate']:.1f}, {cell['ratio']:.2f} x{verdict}"
        print(text, flush=True)


def engine_rows(table, files, peer_python, kernels, least, suffix=""):
    """Decode, long decode and both prefills, on every file of `files` {column: path}, whose first is Headway's own."""
    threads = table.args.threads
    flags = ["--threads", str(threads)] + (["--kernels", kernels] if kernels else [])
    headway = table.headway
    wanted = table.args.rows
    peers = {}

    def each(load, measure):
        """One llama.cpp process a file, loaded and ready."""
        for column, path in files.items():
            peer = peers[column] = Peer(peer_python)
            load(peer, path)
        return {column: (lambda peer=peers[column]: measure(peer)) for column in files}

    def done():
        for peer in peers.values():
            peer.close()
        peers.clear()

    if "decode" in wanted:
        def load(peer, path):
            peer.ask("load", model=path, threads=threads, context=512)
            peer.ask("fill", tokens=32)
            peer.ask("decode", steps=8)
        theirs = each(load, lambda peer: 128 / peer.ask("decode", steps=128)["seconds"])
        table.ratios("decode, 128 tokens after 32" + suffix,
                     lambda: headway.rate("--batch", "1", "--context", "32", "--decode-tokens", "128", *flags), theirs, least["decode"])
        done()
    if "long" in wanted:
        def load(peer, path):
            peer.ask("load", model=path, threads=threads, context=4096)
            peer.ask("fill", tokens=4000)
        theirs = each(load, lambda peer: 32 / peer.ask("decode", steps=32)["seconds"])
        table.ratios("decode after 4,000 tokens" + suffix,
                     lambda: headway.rate("--long-context", "4000", "--decode-tokens", "32", *flags), theirs, least["long"])
        done()
    for tokens, name in ((512, "prefill512"), (4000, "prefill4000")):
        if name not in wanted:
            continue

        def load(peer, path):
            peer.ask("load", model=path, threads=threads, context=tokens + 96)
            peer.ask("prefill", tokens=min(tokens, 512))
        theirs = each(load, lambda peer: tokens / peer.ask("prefill", tokens=tokens)["seconds"])
        table.ratios(f"prefill of {tokens:,} tokens" + suffix, lambda: headway.rate("--prefill", str(tokens), *flags), theirs,
                     least[name])
        done()
    if "batch" in wanted and not suffix:
        def load(peer, path):
            peer.ask("load", model=path, threads=threads, context=128, sequences=16)
            peer.ask("fill", tokens=64, sequences=16)
            peer.ask("decode", steps=2)
        theirs = each(load, lambda peer: 16 * 32 / peer.ask("decode", steps=32)["seconds"])
        table.ratios("16 sequences decoding together",
                     lambda: headway.rate("--batch", "16", "--context", "64", "--decode-tokens", "32", *flags), theirs, least["batch"])
        done()


def main():
    every = ["decode", "long", "prefill512", "prefill4000", "batch", "avx2", "start", "ranks", "router"]
    parser = argparse.ArgumentParser(
        prog="tests/bench/versus_llama_cpp",
        description="Measures Headway and llama.cpp in turn on the same cores and prints tokens a second and the ratio, medians of "
                    "all pairs. llama.cpp runs the same file and, as its fastest format, a Q4_0 that its own quantiser makes of it.")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs a row (default: 5)")
    parser.add_argument("--rows", default=",".join(every), help=f"which of {', '.join(every)} (default: all)")
    parser.add_argument("--threads", type=int, default=CORES, help=f"of either side (default: {CORES})")
    parser.add_argument("--json", action="store_true", help="the rows as one JSON list at the end, with every ratio")
    for hidden in ("--headway", "--model", "--work", "--peer", "--peer-avx2"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.rows = args.rows.split(",")
    if unknown := [row for row in args.rows if row not in every]:
        parser.error(f"--rows: {unknown[0]!r} is none of {', '.join(every)}")

    q4_0 = os.path.join(args.work, "model.Q4_0.gguf")
    if not os.path.exists(q4_0):
        peer = Peer(args.peer)
        peer.ask("quantise", **{"from": args.model, "to": q4_0 + ".new", "type": "q4_0"})
        peer.close()
        os.rename(q4_0 + ".new", q4_0)
    files = {"same file": args.model, "its Q4_0": q4_0}
    table = Table(args)
    print(f"{'tokens a second':<58} {'headway':>9}   llama.cpp: rate, ratio of the medians of {args.pairs} pairs", flush=True)
    bandwidth = table.headway.bench("--batch", "1", "--decode-tokens", "16")[-1]
    print(f"read bandwidth with {args.threads} threads: {bandwidth['read_bandwidth'] / 1e9:.1f} GB/s; decode reads "
          f"{bandwidth['share_of_bandwidth'] * 100:.0f} % of it", flush=True)
    engine_rows(table, files, args.peer, None, {
        "decode": {"same file": 2, "its Q4_0": 1.6}, "long": {"same file": 3.5, "its Q4_0": 3.5},
        "prefill512": {"same file": 8, "its Q4_0": 3}, "prefill4000": {"same file": 6, "its Q4_0": 3},
        "batch": {"same file": 6, "its Q4_0": 2.4}})
    if "avx2" in args.rows:
        if args.peer_avx2:
            args.rows += ["decode", "long", "prefill512", "prefill4000"]
            one = {"same file": 2, "its Q4_0": 1.2}
            engine_rows(table, files, args.peer_avx2, "avx2",
                        {name: one for name in ("decode", "long", "prefill512", "prefill4000")}, ", AVX2")
        else:
            print("AVX2: this processor has no more, so the rows above are those with AVX2: at least 2 x and 1.2 x", flush=True)
    if "start" in args.rows:
        def theirs():
            peer = Peer(args.peer)
            seconds = peer.ask("first_token", model=args.model, threads=args.threads, tokens=32)["seconds"]
            peer.close()
            return 1 / seconds
        table.ratios("starts to the first token, a second", lambda: 1 / table.headway.first_token(args.threads, 32),
                     {"same file": theirs}, {"same file": 1})
    if "ranks" in args.rows:
        table.ratios("decode, two ranks of one thread",
                     lambda: table.headway.serve("1xM:tp2", 1, 1, 256),
                     {"one rank of two threads": lambda: table.headway.serve("1xM:tp1", 2, 1, 256)},
                     {"one rank of two threads": 0.9})
    if "router" in args.rows:
        table.ratios("16 streams, 1xP:tp1,1xD:tp1, one thread each",
                     lambda: table.headway.serve("1xP:tp1,1xD:tp1", 1, 16, 64),
                     {"a mixed node of one thread": lambda: table.headway.serve("1xM:tp1", 1, 16, 64)},
                     {"a mixed node of one thread": 0.9})
    if args.json:
        print(json.dumps(table.rows))


if __name__ == "__main__":
    main()
