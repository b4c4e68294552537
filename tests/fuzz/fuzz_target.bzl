"""The rule for a fuzz target."""

load("//bazel:rules.bzl", "hw_cc_binary")

def fuzz_target(name, deps):
    """The libFuzzer program NAME of NAME_fuzz.cc. It links with --config=fuzz only, so //... passes it over."""
    hw_cc_binary(
        name = name,
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps + [":fuzz_input"],
    )
