#!/bin/sh
# deps.sh - installs the Debian packages that quire needs and that are missing.
#
#   tools/deps.sh [run] [test] [lint] [page]     default: the first three
#
# run: what `make run` needs; test: what `make test` needs on top; lint: `make format` and `make lint`.
# page: Chromium, with which the tests drive the chat page (440 MB; without it they are skipped).
# Nothing missing: nothing happens, no root needed. Else it runs apt-get, as root or through sudo.
set -eu

RUN="gcc libc6-dev make git ca-certificates python3 python3-venv
     libevent-dev libhttp-parser-dev libjansson-dev libpcre2-dev libutf8proc-dev libedit-dev libbsd-dev libmd-dev libncurses-dev
     libcurl4-openssl-dev"
TEST="libcmocka-dev valgrind binutils pkg-config clang libclang-rt-dev"
LINT="clang-format clang-tidy cppcheck"
PAGE="chromium chromium-driver fonts-dejavu-core"

say() { echo "deps: $*" >&2; }

[ $# -gt 0 ] || set -- run test lint
wanted=
for set in "$@"; do
    case $set in
    run) wanted="$wanted $RUN" ;;
    test) wanted="$wanted $TEST" ;;
    lint) wanted="$wanted $LINT" ;;
    page) wanted="$wanted $PAGE" ;;
    *)
        say "unknown set '$set'; the sets are: run test lint page"
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is no Debian system: install by hand what these packages hold:"
    # shellcheck disable=SC2086
    say $wanted
    exit 0
fi

missing=
for package in $wanted; do
    # shellcheck disable=SC2016
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
    installed) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        say "missing:$missing"
        say "run as root: apt-get install --no-install-recommends$missing"
        exit 1
    fi
    root=sudo
fi
say "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
    if ! $root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 "$@" >"$log" 2>&1; then
        cat "$log" >&2
        say "apt-get $1 failed"
        exit 1
    fi
}
quietly update
# shellcheck disable=SC2086
quietly install -y --no-install-recommends $missing
say "done"
