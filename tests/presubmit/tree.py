"""The source tree as the checks see it: its files, their text, and where each belongs."""
import os
import re
import subprocess

SOURCES = (".h", ".cc")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class Tree:

    def __init__(self, root, paths=None):
        """`paths`, relative to root, stand for what git knows; given by tests."""
        self.root = root
        self.paths = sorted(paths if paths is not None else _git_files(root))
        self._texts = {}

    def text(self, path):
        if path not in self._texts:
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                self._texts[path] = file.read()
        return self._texts[path]

    def sources(self):
        return [path for path in self.paths if path.endswith(SOURCES)]

    def includes(self, path):
        """The quoted includes of a source, in order."""
        return _INCLUDE.findall(self.text(path))

    def build_files(self):
        return [path for path in self.paths if os.path.basename(path) == "BUILD.bazel"]


def folder_of(path):
    """The folder that the level table speaks of: "runtime/kv", else the topmost."""
    parts = path.split("/")
    if parts[0] == "runtime" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else ""


def _git_files(root):
    """Tracked files and new ones that are not ignored, but none that were deleted."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                            cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({path for path in listed if path and os.path.isfile(os.path.join(root, path))})
