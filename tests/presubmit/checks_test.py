"""The checks find what they are for: each case plants a violation in a small tree."""
import os
import tempfile
import unittest

from tests.presubmit import headers, levels, sources
from tests.presubmit.tree import Tree, folder_of

# Apart, so that this file names no path of a machine itself.
ROOT = "/"
README = """# Tree
| level | folders | may know |
|---|---|---|
| 2 | `runtime/node` | all |
| 1 | `runtime/kv`, `runtime/text` | not each other |
| 0 | `runtime/base`, `proto` | nothing |
"""


def guarded(path):
    guard = "HEADWAY_" + path.upper().replace("/", "_").replace(".", "_") + "_"
    return f"#ifndef {guard}\n#define {guard}\n\n#endif  // {guard}\n"


class ChecksTest(unittest.TestCase):

    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        files = {"README.md": README, **files}
        for path, text in files.items():
            full = os.path.join(folder.name, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        return Tree(folder.name, list(files))

    def one(self, problems, *parts):
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def test_knows_the_folder_of_a_file(self):
        self.assertEqual(folder_of("runtime/kv/deep/pool.h"), "runtime/kv")
        self.assertEqual(folder_of("kernels/cpu/linear.cc"), "kernels")
        self.assertEqual(folder_of("README.md"), "")

    # Levels.

    def test_includes_downwards_are_fine(self):
        self.assertEqual(levels.check(self.tree({
            "runtime/node/a.cc": '#include "runtime/node/a.h"\n#include "runtime/kv/b.h"\n#include "proto/x.pb.h"\n',
            "runtime/kv/b.h": '#include <vector>\n#include "absl/status/status.h"\n#include "runtime/base/c.h"\n',
        })), [])

    def test_finds_an_include_upwards(self):
        self.one(levels.check(self.tree({"runtime/kv/b.h": '#include "runtime/node/a.h"\n'})),
                 "runtime/kv/b.h", "upwards, from level 1 to level 2")

    def test_finds_an_include_sideways(self):
        self.one(levels.check(self.tree({"runtime/kv/b_test.cc": '  #  include "runtime/text/a.h"\n'})), "sideways")

    def test_finds_a_folder_that_is_not_in_the_table(self):
        self.one(levels.check(self.tree({"runtime/new/b.h": '#include "runtime/base/a.h"\n'})), "runtime/new/")
        self.one(levels.check(self.tree({"runtime/kv/b.h": '#include "runtime/new/a.h"\n'})), "runtime/new/")

    def test_finds_a_dependency_upwards_in_a_build_file(self):
        build = '_USERS = ["//runtime/node:__pkg__"]\npackage_group(packages = ["//runtime/node/..."])\nhw_cc_library(\n    visibility = ["//runtime/node:__pkg__"],\n' \
                '    deps = [%s],\n)\n'
        self.assertEqual(levels.check(self.tree({"runtime/kv/BUILD.bazel": build % '"//runtime/base:status"'})), [])
        self.one(levels.check(self.tree({"runtime/kv/BUILD.bazel": build % '"//runtime/node"'})), "upwards")

    def test_only_tests_may_use_the_tests_folder(self):
        self.assertEqual(levels.check(self.tree({"runtime/kv/b_test.cc": '#include "tests/data.h"\n'})), [])
        self.one(levels.check(self.tree({"runtime/kv/b.cc": '#include "tests/data.h"\n'})), "only tests")

    def test_finds_a_readme_without_the_table(self):
        self.one(levels.check(self.tree({"README.md": "# Tree\n"})), "no level table")

    # Sources.

    def test_finds_a_wrong_guard(self):
        path = "runtime/kv/pool.h"
        self.assertEqual(sources.check_guards(self.tree({path: guarded(path)})), [])
        self.one(sources.check_guards(self.tree({path: guarded("runtime/kv/other.h")})), "guard")
        self.one(sources.check_guards(self.tree({path: "#pragma once\n"})), "guard")
        self.one(sources.check_guards(self.tree({path: guarded(path) + "int x;\n"})), "end")

    def test_finds_a_long_file(self):
        line = "// line\n"
        self.assertEqual(sources.check_length(self.tree({"a/b.cc": line * sources.MAX_LINES})), [])
        self.one(sources.check_length(self.tree({"a/b.cc": line * (sources.MAX_LINES + 1)})), "801 lines")

    def test_finds_a_source_without_a_target(self):
        files = {
            "runtime/kv/BUILD.bazel": 'hw_cc_library(name = "pool", srcs = ["pool.cc"], hdrs = glob(["deep/*.h"]))\n',
            "runtime/kv/pool.cc": "",
            "runtime/kv/deep/a.h": "",
        }
        self.assertEqual(sources.check_targets(self.tree(files)), [])
        self.one(sources.check_targets(self.tree({**files, "runtime/kv/lost.cc": ""})), "lost.cc")
        self.one(sources.check_targets(self.tree({"a/b.cc": ""})), "no BUILD.bazel")

    def test_knows_sources_that_a_comprehension_names(self):
        files = {
            "a/BUILD.bazel": '[lib(name = isa, srcs = [isa + ".cc", "vec_" + isa + ".h"]) for isa in ["avx2", "avx512"]]\n',
            "a/avx2.cc": "", "a/vec_avx512.h": "",
        }
        self.assertEqual(sources.check_targets(self.tree(files)), [])
        self.one(sources.check_targets(self.tree({**files, "a/vec_neon.h": ""})), "vec_neon.h")

    def test_finds_forbidden_words(self):
        for path, text, part in (
            ("runtime/kv/a.cc", f'Open("{ROOT}work/data");\n', "path"),
            ("README.md", README + f"see {ROOT}root/x\n", "path"),
            ("runtime/kv/a.cc", '\n\nauto v = std::getenv("X");\n', "a.cc:3"),
            ("runtime/kv/a.h", "// TODO: later\n", "finish"),
            ("runtime/kv/a_test.cc", "std::this_thread::sleep_for(x);\n", "wait for events"),
        ):
            with self.subTest(text=text):
                self.one(sources.check_words(self.tree({path: text})), part)
        excused = "// Sleeps: the timeout is what is tested.\nsleep(1);  // Sleeps: this one too\n"
        self.assertEqual(sources.check_words(self.tree({"runtime/kv/a_test.cc": excused})), [])
        self.one(sources.check_words(self.tree({"runtime/kv/a_test.cc": excused + "\nsleep(2);\n"})), "a_test.cc:4")
        self.assertEqual(sources.check_words(self.tree({
            "runtime/kv/a.cc": f"std::this_thread::sleep_for(x);  // network{ROOT} .{ROOT}work{ROOT}\n"})), [])

    def test_tests_may_read_the_environment(self):
        self.assertEqual(sources.check_words(self.tree({"runtime/kv/a_test.cc": 'getenv("X");\n'})), [])

    def test_finds_a_folder_without_readme(self):
        files = {"runtime/kv/a.cc": "", "runtime/kv/README.md": ""}
        self.assertEqual(sources.check_readmes(self.tree(files)), [])
        self.one(sources.check_readmes(self.tree({**files, "kernels/cpu/a.cc": ""})), "kernels")

    # Headers.

    def test_headers_that_a_source_includes_first_are_proved(self):
        tree = self.tree({"a/b.h": "", "a/b.cc": '#include "a/b.h"\n#include "a/c.h"\n', "a/c.h": ""})
        self.assertEqual(headers.unproved(tree), ["a/c.h"])

    def test_finds_a_header_that_needs_another_before_it(self):
        tree = self.tree({"a/good.h": "struct Good {};\n", "a/bad.h": "Good Make();\n"})
        cache = os.path.join(tree.root, "cache")
        self.one(headers.check(tree, cache), "a/bad.h", "Good")
        # What compiled is not compiled again, what did not is.
        self.one(headers.check(tree, cache, compiler="false"), "a/bad.h")

    def test_a_header_is_compiled_again_when_what_it_includes_has_changed(self):
        before = self.tree({"a/b.h": '#include "a/c.h"\n', "a/c.h": "struct A {};\n"})
        after = self.tree({"a/b.h": '#include "a/c.h"\n', "a/c.h": "struct B {};\n"})
        self.assertNotEqual(headers.fingerprint(before, "a/b.h"), headers.fingerprint(after, "a/b.h"))


if __name__ == "__main__":
    from tests import xml_main
    xml_main.main()
