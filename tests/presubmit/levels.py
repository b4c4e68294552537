"""No folder uses a folder of its own level or above. The table stands in README.md, and is read from there."""
import re

from tests.presubmit.tree import folder_of

_ROW = re.compile(r"^\|\s*(\d+)\s*\|([^|]*)\|", re.MULTILINE)
_FOLDER = re.compile(r"`([a-z_/]+)`")
# What of a BUILD file names targets without depending on them.
_NO_DEPENDENCY = re.compile(
    r"\b(\w*visibility|packages)\s*=\s*\[[^\]]*\]|\bload\([^)]*\)|^_?[A-Z_]+ = \[[^\]]*\]", re.MULTILINE)
_LABEL = re.compile(r'"//([^":]*)(?::[^"]*)?"')
# What tests are made of may be used by tests of any level, and uses what it likes.
_TESTS = "tests"
# Build rules are no part of the program.
_BUILD_RULES = "bazel"


def read_table(readme):
    """{folder: level} from the rows "| 3 | `runtime/model`, `runtime/kv` | ... |"."""
    levels = {}
    for level, folders in _ROW.findall(readme):
        for folder in _FOLDER.findall(folders):
            levels[folder] = int(level)
    return levels


def check(tree):
    levels = read_table(tree.text("README.md"))
    if not levels:
        return ["README.md: has no level table (rows like \"| 0 | `runtime/base` | ... |\")"]
    problems = []
    for path in tree.sources():
        for include in tree.includes(path):
            if "/" in include:  # else a system library's
                problems += _check_edge(path, f"includes {include}", include, levels)
    for path in tree.build_files():
        text = _NO_DEPENDENCY.sub("", tree.text(path))
        for package in _LABEL.findall(text):
            problems += _check_edge(path, f"depends on //{package}", package + "/x", levels)
    return problems


def _check_edge(path, what, target, levels):
    user, used = folder_of(path), folder_of(target)
    if user in ("", _TESTS, _BUILD_RULES) or used in ("", user, _BUILD_RULES):
        return []
    if used == _TESTS:
        for_tests = path.endswith(("_test.cc", "BUILD.bazel")) or "test" in path.rsplit("/", 1)[-1]
        return [] if for_tests else [f"{path}: {what}: only tests may use {_TESTS}/"]
    if used not in levels and not used.startswith("runtime"):
        return []  # a system library's header
    problems = [f"{path}: {what}: {folder}/ is not in the level table of README.md"
                for folder in (user, used) if folder not in levels]
    if not problems and levels[used] >= levels[user]:
        direction = "sideways" if levels[used] == levels[user] else "upwards"
        problems.append(f"{path}: {what}: {direction}, from level {levels[user]} to level {levels[used]}")
    return problems
