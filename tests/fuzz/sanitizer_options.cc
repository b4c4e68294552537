// Read by the sanitizers' runtimes.
extern "C" {

// Debian's libraries are built without ASan: where they shrink a container and code that sees its
// header grows it, only one of the two marks what is in use. Names and lines in reports come from
// addr2line, since llvm-symbolizer need not be there.
const char* __asan_default_options() {
  return "detect_container_overflow=0:detect_leaks=1:strict_string_checks=1:allow_addr2line=1";
}

const char* __ubsan_default_options() { return "print_stacktrace=1:halt_on_error=1"; }

}  // extern "C"
