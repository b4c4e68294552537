"""Makes Debian's -dev packages usable as cc_library targets.

One repository, @sys, holds one cc_library per entry of SYSTEM_LIBS. Flags come
from pkg-config where the package ships a .pc file, else from the entry itself.
All missing packages are reported in one error, with the apt-get line that
installs them. An optional entry that is missing becomes a target that fails
only when something depends on it; @sys//:config.bzl tells which are there.
"""

def _lib(apt, pc = [], header = None, links = [], defines = [], deps = [], include = None, optional = False):
    """Describes one system library.

    Args:
      apt: the Debian package to name in error messages.
      pc: pkg-config modules to ask for flags.
      header: a header under /usr/include that must exist (for packages with no .pc).
      links: extra linker options, put before those of pkg-config.
      defines: preprocessor definitions that every user gets.
      deps: other entries that this one needs.
      include: a non-default header folder to put on the include path.
      optional: whether the build goes on without it.
    """
    return struct(
        apt = apt,
        pc = pc,
        header = header,
        links = links,
        defines = defines,
        deps = deps,
        include = include,
        optional = optional,
    )

SYSTEM_LIBS = {
    "absl": _lib(
        "libabsl-dev",
        pc = [
            "absl_any_invocable",
            "absl_btree",
            "absl_cleanup",
            "absl_failure_signal_handler",
            "absl_flags",
            "absl_flags_parse",
            "absl_flags_usage",
            "absl_flat_hash_map",
            "absl_flat_hash_set",
            "absl_inlined_vector",
            "absl_random_random",
            "absl_status",
            "absl_statusor",
            "absl_str_format",
            "absl_strings",
            "absl_symbolize",
            "absl_synchronization",
            "absl_time",
        ],
    ),
    "gmock": _lib("libgmock-dev", pc = ["gmock"]),
    "gmock_main": _lib("libgmock-dev", pc = ["gmock_main", "gmock"], deps = ["gmock"], links = ["-lgmock_main"]),
    "grpc": _lib("libgrpc++-dev", pc = ["grpc++"], deps = ["protobuf", "absl"]),
    "grpc_reflection": _lib(
        "libgrpc++-dev",
        header = "grpcpp/ext/proto_server_reflection_plugin.h",
        # The plugin registers itself from a static initialiser that nothing
        # refers to, so --as-needed would drop it.
        links = ["-Wl,--push-state,--no-as-needed", "-lgrpc++_reflection", "-Wl,--pop-state"],
        deps = ["grpc"],
    ),
    "json": _lib("nlohmann-json3-dev", pc = ["nlohmann_json"]),
    "pcre2": _lib("libpcre2-dev", pc = ["libpcre2-8"]),
    "protobuf": _lib("libprotobuf-dev", pc = ["protobuf"]),
    "cli11": _lib("libcli11-dev", pc = ["CLI11"]),
    "ucx": _lib("libucx-dev", pc = ["ucx"]),
    "utf8proc": _lib("libutf8proc-dev", pc = ["libutf8proc"]),
    "xxhash": _lib("libxxhash-dev", pc = ["libxxhash"]),
}

SYSTEM_TOOLS = {
    "grpc_cpp_plugin": "protobuf-compiler-grpc",
    "protoc": "protobuf-compiler",
}

# Flags that some .pc files carry and that no Linux build wants.
_DROPPED = ["-DNOMINMAX"]

_DEFAULT_INCLUDES = ["/usr/include", "/usr/include/"]

_MISSING_BZL = '''
def _missing_impl(ctx):
    fail("{} is not installed: apt-get install -y {}, then: bazel sync --configure".format(ctx.label, ctx.attr.apt))

missing_library = rule(implementation = _missing_impl, attrs = {"apt": attr.string()})
'''

def _pkg_config(rctx, tool, modules):
    """Returns struct(ok, defines, includes, links) for some pkg-config modules."""
    result = rctx.execute([tool, "--cflags", "--libs"] + modules)
    if result.return_code != 0:
        return struct(ok = False, why = result.stderr.strip())
    defines = []
    includes = []
    links = []
    for flag in result.stdout.strip().split(" "):
        if not flag or flag in _DROPPED:
            continue
        if flag.startswith("-I"):
            path = flag[2:]
            if path not in _DEFAULT_INCLUDES:
                includes.append(path)
        elif flag.startswith("-D"):
            defines.append(flag[2:])
        elif flag not in links or not flag.startswith("-l"):
            links.append(flag)
    return struct(ok = True, defines = defines, includes = includes, links = links)

def _system_libs_impl(rctx):
    tool = rctx.which("pkg-config")
    if not tool:
        fail("pkg-config is missing: apt-get install pkg-config")

    missing = []
    present = {}
    build = [
        "load(\":missing.bzl\", \"missing_library\")",
        "package(default_visibility = [\"//visibility:public\"])",
    ]

    for name, lib in SYSTEM_LIBS.items():
        defines = list(lib.defines)
        includes = [lib.include] if lib.include else []
        links = list(lib.links)
        ok = True
        if lib.pc:
            flags = _pkg_config(rctx, tool, lib.pc)
            ok = flags.ok
            if ok:
                defines += flags.defines
                includes += flags.includes
                links += flags.links
        if ok and lib.header:
            ok = rctx.path("/usr/include/" + lib.header).exists
        present[name] = ok
        if not ok:
            if lib.optional:
                build.append("missing_library(name = {}, apt = {})".format(repr(name), repr(lib.apt)))
            elif lib.apt not in missing:
                missing.append(lib.apt)
            continue

        local_includes = []
        for i, path in enumerate(includes):
            folder = "include/{}/{}".format(name, i)
            rctx.symlink(path, folder)
            local_includes.append(folder)
        build.append("""cc_library(
    name = {name},
    hdrs = glob({globs}, allow_empty = True),
    defines = {defines},
    includes = {includes},
    linkopts = {links},
    deps = {deps},
)""".format(
            name = repr(name),
            globs = repr([i + "/**" for i in local_includes]),
            defines = repr(defines),
            includes = repr(local_includes),
            # Bazel's toolchain turns --as-needed off; without it every binary
            # would load some sixty Abseil libraries.
            links = repr(["-Wl,--as-needed"] + links),
            deps = repr([":" + d for d in lib.deps]),
        ))

    for name, apt in SYSTEM_TOOLS.items():
        path = rctx.which(name)
        if path:
            rctx.symlink(path, "bin/" + name)
            build.append("exports_files([{}])".format(repr("bin/" + name)))
        elif apt not in missing:
            missing.append(apt)

    if missing:
        fail("\n\nSystem libraries are missing. Install them with:\n    apt-get install -y {}\nthen run: bazel sync --configure\n".format(" ".join(sorted(missing))))

    rctx.file("missing.bzl", _MISSING_BZL)
    rctx.file("config.bzl", "HAVE = {}\n".format(repr(present)))
    rctx.file("BUILD.bazel", "\n\n".join(build) + "\n")

system_libs = repository_rule(
    implementation = _system_libs_impl,
    configure = True,
    environ = ["PKG_CONFIG_PATH", "PATH"],
    doc = "Declares @sys, the system libraries of this project.",
)
