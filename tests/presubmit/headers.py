"""Every header compiles by itself.

A header that is the first include of some source is proved by the build of that source. The others are compiled alone,
and what compiled is remembered by the content of everything that it includes from this project.

A *_impl.h is no header but a part of the sources that include it, after they have defined what it is written on.
"""
import concurrent.futures
import hashlib
import os
import subprocess
import tempfile

_FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
          "-Wno-unused-parameter"]


def unproved(tree):
    """The headers that no source includes first."""
    first = {includes[0] for path in tree.sources() if path.endswith(".cc") and (includes := tree.includes(path))}
    return [path for path in tree.sources()
            if path.endswith(".h") and not path.endswith("_impl.h") and path not in first]


def fingerprint(tree, path):
    """Of the header and all of this project that it includes."""
    known, seen, queue = set(tree.paths), set(), [path]
    while queue:
        current = queue.pop()
        if current.endswith((".pb.h", ".grpc.pb.h")):
            current = current.split(".")[0] + ".proto"
        if current in known and current not in seen:
            seen.add(current)
            queue += tree.includes(current)
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for each in sorted(seen):
        digest.update(each.encode() + b"\0" + tree.text(each).encode() + b"\0")
    return digest.hexdigest()


def check(tree, cache, compiler="g++"):
    """`cache`: a folder that remembers what compiled; made where there is none."""
    marks = {path: os.path.join(cache, fingerprint(tree, path)) for path in unproved(tree)}
    todo = [path for path, mark in marks.items() if not os.path.exists(mark)]
    if not todo:
        return []
    os.makedirs(cache, exist_ok=True)
    problems = []
    with tempfile.TemporaryDirectory() as generated:
        protos = [path for path in tree.paths if path.startswith("proto/") and path.endswith(".proto")]
        if protos:
            subprocess.run(["protoc", "--proto_path=.", f"--cpp_out={generated}", f"--grpc_out={generated}",
                            "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin", *protos],
                           cwd=tree.root, check=True)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path, error in zip(todo, pool.map(lambda path: _compile(compiler, tree.root, generated, path), todo)):
                if error:
                    problems.append(f"{path}: does not compile by itself: {error}")
                else:
                    open(marks[path], "w").close()
    return problems


def _compile(compiler, root, generated, path):
    """The first error, or nothing."""
    run = subprocess.run([compiler, *_FLAGS, "-I", root, "-I", generated, "-x", "c++", "-"],
                         input=f'#include "{path}"\n', capture_output=True, text=True)
    if run.returncode == 0:
        return None
    return next((line for line in run.stderr.splitlines() if "error" in line), f"exit status {run.returncode}")
