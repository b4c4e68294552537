"""The rules that BUILD files of this project use in place of cc_library and cc_test."""

_COPTS = ["-Wall"]

def hw_cc_library(name, copts = [], **kwargs):
    """A library of this project. Private unless `visibility` says otherwise."""
    native.cc_library(name = name, copts = _COPTS + copts, **kwargs)

def hw_cc_test(name, deps = [], copts = [], size = "small", **kwargs):
    """A GoogleTest with the project's main(), which sets the sanitizers' defaults."""
    native.cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts,
        deps = deps + ["//tests:test_main"],
        **kwargs
    )

def hw_cc_binary(name, copts = [], **kwargs):
    """A program of this project."""
    native.cc_binary(name = name, copts = _COPTS + copts, **kwargs)
