"""The command line as a stranger meets it: help, mistakes, exit statuses, and what needs no model."""
import json
import os
import signal
import struct
import subprocess
import time
import unittest

HEADWAY = "runtime/main/headway"
MODEL = "tests/golden/gguf/llama_f32/model.gguf"
VERBS = ("up", "router", "node", "rank", "generate", "chat", "score", "verify", "budget", "bench")
FACTS = ("--layers", "32", "--heads", "32", "--head-dim", "128")
GIB = 1 << 30


def run(*arguments):
    return subprocess.run([HEADWAY, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


class CommandLineTest(unittest.TestCase):

    def refused(self, status, result, *parts):
        self.assertEqual(result.returncode, status, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_help_lists_every_verb(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for verb in VERBS:
            self.assertIn(f"\n  {verb} ", result.stdout)

    def test_each_verb_explains_itself(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                result = run(verb, "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                for part in (f"Usage: headway {verb}", "Example:", "default"):
                    self.assertIn(part, result.stdout)
                self.assertLessEqual(max(map(len, result.stdout.split("\n"))), 140)

    def test_no_verb_shows_the_overview(self):
        result = run()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("Usage: headway VERB", result.stderr)

    def test_a_wrong_verb_is_a_mistake_of_usage(self):
        self.refused(2, run("genrate", "--prompt", "x"), '"genrate"', "did you mean generate?", "--help")
        self.refused(2, run("frobnicate"), '"frobnicate"')

    def test_wrong_flags_are_mistakes_of_usage(self):
        for arguments, part in (
            (("generate", "--promt", "x"), "did you mean --prompt?"),
            (("generate", "--model", "m", "--prompt", "x", "--max-tokens", "0"), "--max-tokens"),
            (("generate", "--model", "m"), "exactly one of --prompt, --prompt-ids and --chat"),
            (("generate", "--prompt", "x"), "--address"),
            (("generate", "--prompt", "x", "--model", "m", "--address", "h:1"), "are both given"),
            (("generate", "--prompt", "x", "--model", ""), '--model: "" names no checkpoint'),
            (("up", "--model", ""), '--model: "" names no checkpoint'),
            (("generate", "--prompt", "x", "--model", "m", "--logprobs", "2"), "--logprobs goes with --json"),
            (("generate", "--prompt", "x", "--address", "h:1", "--kv-dtype", "f32"), "--kv-dtype goes with --model"),
            (("generate", "--prompt-ids", "1,x", "--model", "m"), "--prompt-ids"),
            (("generate", "--prompt", "x", "--model", "m", "--topology", "2xQ:tp1"), "--topology"),
            (("score", "--prompt", "x", "--model", "m", "--top", "21"), "from 0 to 20"),
            (("up",), "--model PATH is needed"),
            (("node", "--model", "m", "--role", "boss"), "prefill, decode, mixed"),
            (("node", "--model", "m", "--kv-blocks", "1", "--kv-memory", "1GiB"), "give one"),
            (("rank", "--model", "m"), "started by its node's leader"),
            (("router", "--model", "m"), "give the nodes"),
            (("router", "--model", "m", "--prefill", "a:1"), "--decode"),
            (("budget", *FACTS), "--positions is needed"),
            (("budget", "--layers", "32", "--positions", "1"), "--heads is missing"),
            (("budget", "--model", "m", "--layers", "1"), "give one"),
            (("bench", "extra"), '"extra"'),
            (("generate", "--model", "m", "--prompt", b"a\xff"), "--prompt: 'a\\xff' is not UTF-8 at byte 1"),
            (("chat", "--model", "m", b"\xff"), "argument 3: '\\xff' is not UTF-8"),
            (("generate", "--prompt", "x", "--model", "m", "--top-p", "0"), '--top-p: "0" is not above 0'),
            (("generate", "--prompt", "x", "--model", "m", "--stop", ""), "--stop: '' has 0 bytes"),
            (("generate", "--prompt", "x", "--model", "m", "--min-tokens", "3", "--max-tokens", "2"),
             '--min-tokens: "3" is above --max-tokens, which is 2'),
            (("generate", "--prompt", "x", "--address", "foo"), "--address: 'foo' has no port"),
            (("score", "--prompt", "x", "--address", "foo:0"), 'the port of "foo:0" is 0'),
            (("up", "--model", "m", "--listen", "7000"), "--listen: '7000' has no port"),
            (("node", "--model", "m", "--listen", "h:port"), "--listen: 'h:port' has no port from 0"),
            (("router", "--model", "m", "--mixed", "a:1,b"), "--mixed: 'b' has no port"),
        ):
            with self.subTest(arguments=arguments):
                self.refused(2, run(*arguments), f"headway {arguments[0]}: ", part)

    def test_a_missing_model_is_an_error(self):
        for arguments in (("verify",), ("bench",), ("budget",), ("node",), ("up",), ("generate", "--prompt", "x")):
            with self.subTest(verb=arguments[0]):
                result = run(*arguments, "--model", "/nonexistent/model.gguf")
                self.assertEqual((result.returncode, result.stdout), (1, ""), result)
                last = result.stderr.strip().split("\n")[-1]
                self.assertTrue(last.startswith(f"headway {arguments[0]}: "), result.stderr)
                self.assertIn("/nonexistent/model.gguf", last)

    def test_a_damaged_model_is_an_error(self):
        # The smallest GGUF file whose only tensor has no values: a reader that divides by its sizes dies.
        tensor = struct.pack("<Q1sIQQIQ", 1, b"t", 2, 1, 0, 0, 0)
        for name, image in (
            ("zero.gguf", b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor),
            ("name.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<QIQ", 0, 4, 0)),
            ("empty.gguf", b""),
        ):
            path = os.path.join(os.environ["TEST_TMPDIR"], name)
            with open(path, "wb") as file:
                file.write(image)
            for verb in ("budget", "node"):
                with self.subTest(name=name, verb=verb):
                    result = run(verb, "--model", path)
                    self.assertEqual((result.returncode, result.stdout), (1, ""), result)
                    self.assertIn(path, result.stderr.strip().split("\n")[-1])
                    if name == "zero.gguf":
                        self.assertIn("tensor 't'", result.stderr)

    def test_output_that_is_lost_is_an_error(self):
        for arguments in (("--help",), ("score", "--help"), ("budget", *FACTS, "--positions", "16"),
                          ("generate", "--prompt-ids", "1,2", "--max-tokens", "2", "--json", "--model", MODEL),
                          ("generate", "--prompt-ids", "1,2", "--max-tokens", "2", "--model", MODEL),
                          ("up", "--quiet", "--topology", "1xM:tp1", "--model", MODEL)):
            with self.subTest(arguments=arguments), open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run([HEADWAY, *arguments], stdin=subprocess.DEVNULL, stdout=full, text=True,
                                        stderr=subprocess.PIPE, timeout=60, check=False)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn("standard output could not be written", result.stderr)

    def test_nobody_at_the_address_is_an_error(self):
        start = time.monotonic()
        self.refused(1, run("generate", "--address", "127.0.0.1:1", "--prompt", "x"), "127.0.0.1:1", "Connection refused")
        self.assertLess(time.monotonic() - start, 5, "a refused connection is told at once")

    def budget(self, *arguments):
        result = run("budget", *arguments, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return json.loads(result.stdout)

    def test_budget_has_the_known_figures(self):
        facts = (*FACTS, "--kv-dtype", "f16")
        self.assertEqual(self.budget(*facts, "--positions", "8192"), {"kv_bytes": 4 * GIB, "kv_bytes_per_rank": [4 * GIB]})
        self.assertEqual(self.budget(*facts, "--kv-heads", "8", "--positions", "8192")["kv_bytes"], GIB)
        for kv_heads, sequences in (("32", 5), ("8", 20)):
            self.assertEqual(self.budget(*facts, "--kv-heads", kv_heads, "--positions", "32768", "--memory",
                                         "80GiB")["sequences"], sequences)

    def test_budget_follows_dtype_and_ranks(self):
        facts = ("--layers", "2", "--heads", "9", "--kv-heads", "3", "--head-dim", "64", "--positions", "16")
        whole = 2 * 2 * 3 * 64 * 16 * 4
        self.assertEqual(self.budget(*facts, "--kv-dtype", "f32")["kv_bytes"], whole)
        # 9 query heads on 2 ranks: the boundary cuts through the second KV head's, so both store it.
        two = self.budget(*facts, "--kv-dtype", "f32", "--tp", "2")
        self.assertEqual(two, {"kv_bytes": whole, "kv_bytes_per_rank": [whole // 3 * 2, whole // 3 * 2]})
        table = run("budget", *facts, "--tp", "2")
        self.assertEqual(table.returncode, 0)
        for part in ("f16", "bf16", "f32", "16 KiB, 16 KiB"):
            self.assertIn(part, table.stdout)

    def test_budget_names_what_cannot_be(self):
        self.refused(1, run("budget", *FACTS, "--kv-heads", "5", "--positions", "1"), "headway budget: ", "5")
        self.refused(1, run("budget", *FACTS, "--positions", "1", "--tp", "999"), "999")


def descendants(pid):
    """The processes under `pid`, as far as they exist by now."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
            for child in children.read().split():
                found += [int(child), *descendants(child)]
    return found


class InterruptTest(unittest.TestCase):
    """Ctrl-C at several moments stops what was started, in order, with nothing left."""

    def start(self, *arguments):
        process = subprocess.Popen([HEADWAY, *arguments, "--model", MODEL], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def interrupt(self, process):
        family = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        # Less than the grace of a process that does not heed it.
        out, err = process.communicate(timeout=30)
        # Those that are stopped are also waited for: none outlives the one that started it.
        self.assertEqual([pid for pid in family if os.path.exists(f"/proc/{pid}")], [], err)
        return len(family), out, err

    def test_up_while_it_loads(self):
        process = self.start("up", "--topology", "1xP:tp2,1xD:tp2")
        while "loaded" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        count, out, err = self.interrupt(process)
        self.assertEqual((process.returncode, out), (-signal.SIGINT, ""), err)
        self.assertGreaterEqual(count, 2)
        self.assertIn("asked to stop: ends the router, then the nodes", err)
        self.assertNotIn("signal 9", err)

    def test_up_once_it_is_ready(self):
        process = self.start("up", "--topology", "1xP:tp2,1xD:tp2", "--json")
        self.assertIn('"router"', process.stdout.readline())
        count, _, err = self.interrupt(process)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(count, 5)

    def test_a_drained_node_and_router_end_well(self):
        node = self.start("node", "--role", "mixed", "--tp", "2", "--listen", "127.0.0.1:0")
        while "serves on" not in (line := node.stderr.readline()):
            self.assertIsNone(node.poll())
        router = self.start("router", "--mixed", line.split()[-1], "--listen", "127.0.0.1:0")
        while "serves" not in router.stderr.readline():
            self.assertIsNone(router.poll())
        for process, number in ((router, signal.SIGTERM), (node, signal.SIGINT)):
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)

    def test_a_private_cluster_while_it_loads(self):
        process = self.start("generate", "--prompt-ids", "1,2")
        while not descendants(process.pid):
            self.assertIsNone(process.poll())
        _, out, err = self.interrupt(process)
        self.assertEqual((process.returncode, out), (-signal.SIGINT, ""), err)

    def test_chat_that_waits_for_a_line(self):
        try:
            terminal, ours = os.openpty()
        except OSError as error:
            self.skipTest(f"this machine gives out no terminals: {error}")
        self.addCleanup(os.close, terminal)
        process = subprocess.Popen([HEADWAY, "chat", "--model", MODEL], text=True, stdin=ours, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        os.close(ours)
        self.assertIn("empty line ends", process.stderr.readline())
        count, _, err = self.interrupt(process)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertEqual(count, 2)


if __name__ == "__main__":
    from tests import xml_main
    # Under a shell's "&" ctrl-C is ignored, and so it would be in what the cases start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    xml_main.main()
