#!/bin/sh
# Objects compiled for one processor must not offer a function that others link: the linker keeps one definition of an
# inline function, and another processor may not be able to run it. So every weak symbol of a table's library lies in
# that table's namespace.
#
# shared_functions_test.sh NAME LIBRARY...
set -eu
name=$1
shift
status=0
for library in "$@"; do
  case $library in *.a) ;; *) continue ;; esac
  seen=1
  nm -C "$library" >"$TEST_TMPDIR/symbols"
  grep -q "cpu::$name::" "$TEST_TMPDIR/symbols" || { echo "$library holds no kernels of $name"; status=1; }
  if grep -E ' [WVuvw] ' "$TEST_TMPDIR/symbols" | grep -v "headway::kernels::cpu::$name::"; then
    echo "$library offers the symbols above to objects compiled for other processors"
    status=1
  fi
done
[ "${seen:-0}" = 1 ] || { echo "no library among the arguments"; status=1; }
exit $status
