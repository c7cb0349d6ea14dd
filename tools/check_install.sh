#!/bin/sh
# check_install.sh - `make install` into an empty folder; a program that knows only what is there must build with
# pkg-config, run, and uninstall must leave nothing. Usage: check_install.sh ROOT, the folder that make builds into.
set -eu
root=$1
if ! command -v pkg-config >/dev/null; then
    echo "pkg-config is not installed"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/usr

install_or_not() { # apart from the make that runs this
    env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory -j1 ROOT="$root" PREFIX="$prefix" "$1" >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
}
install_or_not install
"$prefix/bin/quire" version

cat >"$work/user.c" <<'C'
#include <quire.h>
#include <stdio.h>

int main(void)
{
    struct qr_model *model;
    struct qr_err err;
    enum qr_status status = qr_model_open("dummy:tiny-llama", NULL, &model, &err);

    printf("%s: %s\n", qr_version(), status == QR_OK ? qr_model_name(model) : err.message);
    qr_model_close(model);
    return status != QR_OK;
}
C
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
# shellcheck disable=SC2046
gcc -std=c99 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags quire) "$work/user.c" $(pkg-config --libs quire) \
    -o "$work/user"
"$work/user"

install_or_not uninstall
left=$(find "$prefix" -type f)
if [ -n "$left" ]; then
    echo "uninstall left: $left"
    exit 1
fi
