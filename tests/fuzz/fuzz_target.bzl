"""The rule for a fuzz target."""

load("//bazel:rules.bzl", "hw_cc_binary")

def fuzz_target(name, srcs, deps):
    """A libFuzzer program. It links with --config=fuzz only, so //... passes it over."""
    hw_cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps + [":fuzz_input"],
    )
