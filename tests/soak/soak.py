"""Requests of random lengths, options, cancellations, deadlines and invalid fields against 1xP:tp2,1xD:tp1.

Each is a function of the seed. What must hold: every request ends in a way that it may; a whole answer is the one that the
same request gets alone, token for token with their log-probabilities; afterwards all blocks are free, no process has grown, and
no log line is an error or a sanitizer's.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading

import grpc
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/golden/models/llama_gqa_9_3"
PROTOS = ["proto/headway/v1/inference.proto", "proto/headway/v1/node.proto"]
VOCABULARY = 163  # of TINY
TOPOLOGY = "1xP:tp2,1xD:tp1"
SECONDS = 300  # for any one call
AT_ONCE = 12
GROWTH = 1.25  # of a process's memory between the first quarter and the end
GROWTH_BYTES = 64 << 20  # and at least this


def plan(number, seed, positions):
    """What request `number` is: its fields, and how it is treated."""
    draw = random.Random(f"{seed}/{number}")
    length = draw.choice([1, 2, 15, 16, 17, draw.randint(1, positions // 2)])
    options = {
        "max_tokens": draw.choice([1, 2, 17, draw.randint(1, positions // 3)]),
        "temperature": draw.choice([0.0, 0.7, 1.5]),
        "top_k": draw.choice([0, 1, 40]),
        "top_p": draw.choice([0.1, 0.9, 1.0]),
        "seed": draw.getrandbits(53),
        "ignore_eos": draw.random() < 0.8,
        "logprobs": draw.choice([0, 3]),
    }
    ids = [draw.randrange(VOCABULARY) for _ in range(length)]
    kind = draw.choices(["whole", "cancel", "deadline", "invalid"], [6, 2, 1, 1])[0]
    detail = None
    if kind == "cancel":
        detail = draw.randint(0, 8)  # after so many responses
    elif kind == "deadline":
        detail = draw.choice([0.001, 0.01, 0.05])
    elif kind == "invalid":
        detail = draw.choice(["id", "temperature", "top_p", "max_tokens", "empty", "too long", "stop", "logprobs"])
        if detail == "id":
            ids[draw.randrange(length)] = draw.choice([-1, VOCABULARY, 2**31 - 1])
        elif detail == "temperature":
            options["temperature"] = draw.choice([-1.0, float("nan"), float("inf")])
        elif detail == "top_p":
            options["top_p"] = draw.choice([-0.5, 1.5, float("nan")])
        elif detail == "max_tokens":
            options["max_tokens"] = draw.choice([0, -3, 2**31 - 1])
        elif detail == "empty":
            ids = []
        elif detail == "too long":
            ids = [1] * (positions + 1)
        elif detail == "stop":
            options["stop"] = ["x"]  # the checkpoint has no tokenizer
        elif detail == "logprobs":
            options["logprobs"] = 10**6
    return ids, options, kind, detail


class Soak:
    def __init__(self, args, pb, stub, positions):
        self.args, self.pb, self.stub, self.positions = args, pb, stub, positions
        self.faults = []
        self.whole = {}
        self.counts = {}
        self.lock = threading.Lock()

    def fault(self, number, what):
        with self.lock:
            self.faults.append(f"request {number}: {what}")

    def generate(self, ids, options, timeout, cancel_after=None):
        """(status code or None, tokens)."""
        request = self.pb.GenerateRequest(prompt=self.pb.Prompt(token_ids=self.pb.TokenIds(ids=ids)),
                                          options=self.pb.GenerateOptions(**options))
        call = self.stub.Generate(request, timeout=timeout)
        tokens, responses = [], 0
        try:
            if cancel_after == 0:
                call.cancel()
            for response in call:
                tokens += [(token.index, token.id, token.logprob,
                            tuple((top.id, top.logprob) for top in token.top)) for token in response.tokens]
                responses += 1
                if responses == cancel_after:
                    call.cancel()
            return None, tokens
        except grpc.RpcError as error:
            return error.code(), tokens

    def run(self, number):
        ids, options, kind, detail = plan(number, self.args.seed, self.positions)
        code, tokens = self.generate(ids, options, detail if kind == "deadline" else SECONDS,
                                     detail if kind == "cancel" else None)
        may = {"whole": [None, grpc.StatusCode.RESOURCE_EXHAUSTED], "cancel": [None, grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED],
               "deadline": [None, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED],
               "invalid": [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION,
                           grpc.StatusCode.RESOURCE_EXHAUSTED]}[kind]
        if code not in may:
            self.fault(number, f"{kind} ({detail}) ended with {code}")
        with self.lock:
            key = f"{kind}: {code.name if code else 'whole'}"
            self.counts[key] = self.counts.get(key, 0) + 1
            if code is None:
                self.whole[number] = tokens

    def again(self, number):
        ids, options, _, _ = plan(number, self.args.seed, self.positions)
        code, tokens = self.generate(ids, options, SECONDS)
        if code is not None or tokens != self.whole[number]:
            self.fault(number, f"alone it gives another answer ({code})")


def memory_of_cluster(up):
    """Resident bytes of each process below `up`, by its command line and place."""
    found = {}
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            status = (folder / "status").read_text()
            parents[int(folder.name)] = int(re.search(r"PPid:\s+(\d+)", status)[1])
            resident = re.search(r"VmRSS:\s+(\d+) kB", status)
            if resident:
                found[int(folder.name)] = int(resident[1]) * 1024
        except (OSError, TypeError):
            continue

    def below(pid):
        while pid > 1 and pid != up:
            pid = parents.get(pid, 0)
        return pid == up
    return {pid: size for pid, size in found.items() if below(pid)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headway", required=True)
    parser.add_argument("--model", help="unused: a tiny checkpoint is served")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    protos = tempfile.TemporaryDirectory()
    assert protoc.main(["protoc", f"-I{ROOT}", f"--python_out={protos.name}", f"--grpc_python_out={protos.name}", *PROTOS]) == 0
    sys.path.insert(0, protos.name)
    from proto.headway.v1 import inference_pb2, inference_pb2_grpc, node_pb2, node_pb2_grpc

    log = tempfile.TemporaryFile("w+")
    # What a sanitized process has freed stays for a while, up to 256 MiB: that is no growth to tell of.
    environment = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=16:detect_leaks=1"}
    up = subprocess.Popen([args.headway, "up", "--model", str(TINY), "--topology", TOPOLOGY, "--json", "--stop-on-eof",
                           "--threads", "1", "--kv-blocks", "200", "--restarts", "0"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    addresses = json.loads(up.stdout.readline())
    channel = grpc.insecure_channel(addresses["router"])
    stub = inference_pb2_grpc.InferenceStub(channel)
    positions = stub.GetModel(inference_pb2.GetModelRequest(), timeout=SECONDS, wait_for_ready=True).max_positions
    soak = Soak(args, inference_pb2, stub, positions)
    checks = {}
    quarter = max(1, args.requests // 4)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(soak.run, range(quarter)))
        before = memory_of_cluster(up.pid)
        for start in range(quarter, args.requests, quarter):
            list(pool.map(soak.run, range(start, min(args.requests, start + quarter))))
            print(f"soak: {min(args.requests, start + quarter)} of {args.requests} requests", file=sys.stderr, flush=True)
    for number in list(soak.whole)[:: max(1, len(soak.whole) // max(1, args.requests // 3))]:
        soak.again(number)
    after = memory_of_cluster(up.pid)
    grown = [f"process {pid}: {before[pid] >> 20} to {after.get(pid, 0) >> 20} MiB" for pid in before
             if after.get(pid, 0) > max(before[pid] * GROWTH, before[pid] + GROWTH_BYTES)]
    checks["every request ends as it may, and whole answers are those that it gets alone"] = soak.faults
    checks["no process grows"] = grown
    busy = []
    for node in addresses["nodes"]:
        load = node_pb2_grpc.NodeStub(grpc.insecure_channel(node["address"]))
        for _ in range(1000):  # cancelled work may still be ending
            reply = load.GetLoad(node_pb2.NodeLoadRequest(), timeout=SECONDS)
            left = reply.total_blocks - reply.free_blocks
            if left == 0 and reply.running + reply.waiting + reply.reservations == 0:
                break
        else:
            busy.append(f"{node['name']}: {left} blocks, {reply.running} running, {reply.waiting} waiting, "
                        f"{reply.reservations} reserved")
    checks["all blocks are free"] = busy
    channel.close()
    up.stdin.close()
    status = up.wait(timeout=SECONDS)
    log.seek(0)
    wrong = [line.strip() for line in log if re.search(r" error \[|Sanitizer|runtime error", line)]
    checks["no error in the log, and a clean end"] = wrong + ([f"exit status {status}"] if status else [])

    for kind, count in sorted(soak.counts.items()):
        print(f"  {kind}: {count}")
    for check, faults in checks.items():
        print(f"{check} ... {'ok' if not faults else 'FAIL'}")
        for fault in faults[:10]:
            print(f"  {fault}")
    failed = sum(1 for faults in checks.values() if faults)
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
