"""The rules of the house, checked on the whole tree. Each case lists every violation."""
import os
import pwd
import subprocess
import unittest

from tests.presubmit import headers, levels, sources
from tests.presubmit.tree import Tree


def _source_root():
    """Where the clone is: Bazel runs a link to this file."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def _cache():
    """Kept over runs, unlike the temporary folder of a test, which is also given no HOME."""
    return os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".cache", "headway", "headers")


class Presubmit(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.tree = Tree(_source_root())

    def none(self, problems):
        if problems:
            self.fail("\n" + "\n".join(problems))

    def test_no_folder_uses_its_own_level_or_above(self):
        self.none(levels.check(self.tree))

    def test_headers_compile_by_themselves(self):
        self.none(headers.check(self.tree, _cache()))

    def test_include_guards_follow_the_path(self):
        self.none(sources.check_guards(self.tree))

    def test_every_source_is_in_a_target(self):
        self.none(sources.check_targets(self.tree))

    def test_no_file_is_too_long(self):
        self.none(sources.check_length(self.tree))

    def test_no_forbidden_words(self):
        self.none(sources.check_words(self.tree))

    def test_every_folder_has_a_readme(self):
        self.none(sources.check_readmes(self.tree))

    def test_sources_are_formatted(self):
        run = subprocess.run(["clang-format-14", "--dry-run", "--Werror", *self.tree.sources()],
                             cwd=self.tree.root, capture_output=True, text=True)
        files = sorted({line.split(":")[0] for line in run.stderr.splitlines() if "error:" in line})
        self.none([f"{path}: run clang-format-14 -i {path}" for path in files])
        self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    from tests import xml_main
    xml_main.main()
