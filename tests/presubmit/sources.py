"""What a source file must be like: guard, length, a target of its own, words that it may not use."""
import fnmatch
import os
import re

from tests.presubmit.tree import folder_of

MAX_LINES = 800
_STRING = re.compile(r'"([^"\n]+)"')
# A name put together in a comprehension: name + "_test.cc", "vec_" + isa + ".h".
_SUM = re.compile(r'(?:"([^"\n]+)" \+ )?\b[a-z_]+ \+ "([^"\n]+)"')

# (pattern, where it may not stand, why). Paths are matched with fnmatch; "!" takes some out again.
_FORBIDDEN = [
    (re.compile(r"(?<![\w./~])/(work|root|home)/"), "*", "a path of one machine"),
    (re.compile(r"\b(secure_)?getenv\s*\("), "runtime/*.cc runtime/*.h kernels/*.cc kernels/*.h !*_test.cc",
     "configuration comes by flags, not by the environment"),
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "*", "finish it, or leave it out"),
    (re.compile(r"\busing namespace std\b"), "*.cc *.h", "name what is used"),
    (re.compile(r"\babsl::Mutex\b"), "*.cc *.h", "std::mutex: this Abseil's aborts on lock-order cycles"),
    (re.compile(r"\b(std::this_thread::sleep_(for|until)|usleep|sleep)\s*\("), "*_test.cc",
     "tests wait for events, or move a FakeClock; where time itself is tested, say so: // Sleeps: why"),
]
# Excuses a sleep on the same line or the one below.
_EXCUSE = "// Sleeps: "
# The checks themselves name what they look for.
_EXEMPT = "tests/presubmit/*"


def check_guards(tree):
    problems = []
    for path in tree.sources():
        if not path.endswith(".h"):
            continue
        guard = "HEADWAY_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"
        text = tree.text(path)
        if not re.search(rf"^#ifndef {guard}\n#define {guard}\n", text, re.MULTILINE):
            problems.append(f"{path}: the include guard is not {guard}")
        elif not text.rstrip().endswith(f"#endif  // {guard}"):
            problems.append(f"{path}: does not end with \"#endif  // {guard}\"")
    return problems


def check_length(tree):
    problems = []
    for path in tree.paths:
        if not path.endswith((".h", ".cc", ".py", ".bzl", ".proto", ".sh", "BUILD.bazel")):
            continue
        lines = tree.text(path).count("\n")
        if lines > MAX_LINES:
            problems.append(f"{path}: {lines} lines, more than {MAX_LINES}; split it")
    return problems


def check_targets(tree):
    """Every source is named by the BUILD file of its package, itself or through a pattern."""
    packages = {os.path.dirname(path): _names(tree.text(path)) for path in tree.build_files()}
    problems = []
    for path in tree.paths:
        if not path.endswith((".h", ".cc", ".proto", "_test.py")):
            continue
        package = os.path.dirname(path)
        while package and package not in packages:
            package = os.path.dirname(package)
        if package not in packages:
            problems.append(f"{path}: no BUILD.bazel above it")
            continue
        name = os.path.relpath(path, package or ".")
        if not any(fnmatch.fnmatchcase(name, string) for string in packages[package]):
            problems.append(f"{path}: in no target of {package}/BUILD.bazel")
    return problems


def _names(build):
    """The strings of a BUILD file, and those that its comprehensions make of them."""
    strings = _STRING.findall(build)
    return strings + [prefix + string + suffix for prefix, suffix in _SUM.findall(build) for string in strings]


def check_words(tree):
    problems = []
    for path in tree.paths:
        if fnmatch.fnmatch(path, _EXEMPT) or not _is_text(path):
            continue
        for pattern, where, why in _FORBIDDEN:
            if not _matches(path, where):
                continue
            text = tree.text(path)
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                if "sleep" in pattern.pattern and _EXCUSE in "\n".join(text.split("\n")[max(0, line - 2):line]):
                    continue
                problems.append(f"{path}:{line}: \"{match.group().strip()}\": {why}")
    return problems


def _matches(path, where):
    globs = where.split()
    return (any(fnmatch.fnmatch(path, glob) for glob in globs) and
            not any(fnmatch.fnmatch(path, glob[1:]) for glob in globs if glob.startswith("!")))


def check_readmes(tree):
    """Each folder of the level table's grain says what it is."""
    folders = {folder_of(path) for path in tree.sources() + tree.build_files()} - {""}
    return [f"{folder}: has no README.md" for folder in sorted(folders) if f"{folder}/README.md" not in tree.paths]


def _is_text(path):
    name = os.path.basename(path)
    if path.startswith("tests/golden/"):
        return False
    return "." not in name or name.endswith(
        (".h", ".cc", ".cu", ".py", ".bzl", ".bazel", ".proto", ".md", ".sh", ".txt"))
