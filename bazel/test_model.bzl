"""Gives tests the real model that deploy/fetch-model fetches, where it is there.

    hw_cc_test(..., data = ["@test_model//:smollm2"], deps = ["//tests:test_model", ...])

Where it is not, the target is empty, and tests skip (tests/test_model.h). The folder is looked at when the Bazel server
starts, and by `bazel sync --configure`.
"""

_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"  # as deploy/fetch-model calls it

def _test_model_impl(rctx):
    environ = rctx.os.environ
    home = environ.get("HOME")
    cache = environ.get("XDG_CACHE_HOME") or (home + "/.cache" if home else None)
    sources = []
    if cache and rctx.path(cache + "/headway/" + _NAME).exists:
        rctx.symlink(cache + "/headway/" + _NAME, "smollm2.gguf")
        sources.append("smollm2.gguf")
    rctx.file("BUILD.bazel", """filegroup(
    name = "smollm2",
    testonly = True,
    srcs = {},
    visibility = ["//visibility:public"],
)
""".format(repr(sources)))

test_model = repository_rule(
    implementation = _test_model_impl,
    configure = True,
    local = True,
    environ = ["HOME", "XDG_CACHE_HOME"],
    doc = "Declares @test_model//:smollm2.",
)
