# Shared by the scripts of this project: where things are, what they need, how they build. Sourced by bash scripts that
# run with `set -euo pipefail`. Everything it says goes to standard error.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME
# Downloads and built binaries, outside the clone; safe to delete at any time.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/headway
program=${0##*/}

say() { printf '%s: %s\n' "$program" "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# Makes the cache folder, or says what is wrong with it. $1: megabytes that must be free there.
make_cache() {
  mkdir -p "$cache" 2>/dev/null && [[ -w $cache ]] ||
    die "cannot write in $cache: set XDG_CACHE_HOME to a folder where you may"
  local free
  free=$(df --output=avail -B 1000000 "$cache" | tail -n 1)
  ((free >= $1)) || die "$cache has $((free)) MB free and $1 MB are needed: make room, or set XDG_CACHE_HOME to another disk"
}

# Installs the Debian packages of bazel/packages.txt that are missing; does nothing, quickly, when none is.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is no Debian machine: install the like of what bazel/packages.txt names, then run bazel yourself"
  local missing=() package
  while read -r package; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done <"$root/bazel/packages.txt"
  ((${#missing[@]})) || return 0

  [[ $(id -u) == 0 ]] || die "packages are missing and installing them takes root; run as root, or once:
    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
  say "installing ${#missing[@]} Debian packages and what they need"
  # A shell of its own: what it keeps meanwhile goes however it ends.
  (
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    trap 'exit 130' INT TERM HUP
    # An earlier run that was interrupted may have left packages half configured.
    if ! { dpkg --configure -a && apt_get update && apt_get install --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 3> >(show_apt_progress); then
      grep -E '^(E|W|Err|dpkg)' "$log" | tail -n 15 >&2 || tail -n 15 "$log" >&2
      die "could not install ${missing[*]}: is there a network, and room on the disk?"
    fi
  )
}

# apt-get without questions. Its progress goes to descriptor 3.
apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    -o APT::Status-Fd=3 "$@"
}

# Reads apt's status lines, "dlstatus:N:PERCENT:..." and "pmstatus:PACKAGE:PERCENT:...", and tells every tenth.
show_apt_progress() {
  local kind percent rest told=
  while IFS=: read -r kind _ percent rest; do
    percent=${percent%%.*}
    [[ $percent =~ ^[0-9]+$ ]] || continue
    case $kind in
      dlstatus) kind='downloading packages' ;;
      pmstatus) kind='unpacking and setting up' ;;
      *) continue ;;
    esac
    percent=$((percent / 10 * 10))
    [[ $told == "$kind $percent" ]] || say "$kind: $percent %"
    told="$kind $percent"
  done
}

# Runs bazel in the clone.
run_bazel() { (cd "$root" && exec bazel "$@"); }

# Whether a bazel server of this clone is running.
bazel_runs() {
  local pid_file
  pid_file=$(readlink -f "$root/bazel-out")/../../../server/server.pid.txt
  [[ -r $pid_file ]] && kill -0 "$(<"$pid_file")" 2>/dev/null
}

# Sets `binary` to the path of an up-to-date headway, built when it is missing or older than a source. It is a copy
# outside bazel's folders: builds for tests and sanitizers do not touch it.
build_headway() {
  local folder
  folder=$cache/bin/$(printf '%s' "$root" | sha256sum | cut -c1-16)
  binary=$folder/headway
  if [[ -x $binary && -z $(cd "$root" && find runtime kernels proto bazel WORKSPACE .bazelrc -newer "$binary" -print -quit) ]]; then
    return 0
  fi
  install_packages
  make_cache 100  # for the binary
  say "building headway (the first time takes minutes)"
  # A shell of its own: what it keeps meanwhile goes however it ends.
  (
    mkdir -p "$folder"
    stamp=$(mktemp "$folder/new.XXXXXX")
    # A Bazel server that was not there before is not left behind either.
    bazel_runs && stop_server=: || stop_server='run_bazel shutdown >/dev/null 2>&1'
    trap 'rm -f "$stamp" "$stamp.copy"; eval "$stop_server" || true' EXIT
    trap 'exit 130' INT TERM HUP
    run_bazel build --ui_event_filters=-info //runtime/main:headway >&2 ||
      die "the build failed; the messages above tell where"
    # The time of the copy is that of the start of the build, so that what changed meanwhile counts as newer.
    cp "$root/bazel-bin/runtime/main/headway" "$stamp.copy" && touch -r "$stamp" "$stamp.copy" &&
      mv "$stamp.copy" "$binary" || die "could not put the binary into $folder"
  )
}
