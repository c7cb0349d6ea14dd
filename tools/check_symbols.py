#!/usr/bin/env python3
"""Fails when libquire.a breaks a rule that can be read off its symbols:

- every name with external linkage starts with qr_;
- nothing below the command line ends the process or prints: no abort, exit, printf, stdout, stderr;
- no variable that can be written outlives a call, but for those listed here with their reason.
"""

import re
import subprocess
import sys

FORBIDDEN = {"abort", "exit", "_exit", "_Exit", "quick_exit", "printf", "puts", "putchar", "putc", "vprintf", "perror"}
FORBIDDEN |= {"stdout", "stderr", "__assert_fail", "__printf_chk", "__vprintf_chk"}

# object -> variables that may be written, and why
VARIABLES = {
    "json_parse.o": {"hooked", "next_malloc", "next_free"},  # jansson's allocator is the process's, its hooks have no argument
    "mapguard.o": {"active", "passing", "previous", "install_lock"},  # the process has one SIGBUS handler
}

# What nvcc writes beside each kernel: the handle of the device code, stubs with their caches, and mangled names.
NVCC = re.compile(r"__device_stub__|__cudaFatCubinHandle|^_ZGV|^_Z\w*linear_|^_Z\d+qr_")

OBJECT = re.compile(r"^(\S+\.o):")
# objdump -t: value, seven characters of flags, section, size, name
SYMBOL = re.compile(r"^[0-9a-f]{16} (.{7}) (\S+)\s+[0-9a-f]{16}\s+(?:\.hidden |\.internal |\.protected )?(\S+)$")
WRITABLE = re.compile(r"^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)(?!\.rel\.ro)")


def complaints(archive):
    table = subprocess.run(["objdump", "-t", archive], check=True, capture_output=True, text=True).stdout
    name = "?"
    for line in table.splitlines():
        if found := OBJECT.match(line):
            name = found.group(1)
            continue
        found = SYMBOL.match(line)
        if not found:
            continue
        flags, section, symbol = found.groups()
        if name.endswith(".cu.o") and NVCC.search(symbol):
            continue
        if section == "*UND*":
            if symbol in FORBIDDEN:
                yield f"{name}: uses {symbol}: below the command line nothing prints or ends the process"
            continue
        if flags[0] in "gu!" and not symbol.startswith("qr_"):
            yield f"{name}: {symbol} has external linkage but no qr_ in front"
        if "O" in flags and WRITABLE.match(section):
            if symbol.split(".")[0] not in VARIABLES.get(name, ()):
                yield f"{name}: {symbol} is a variable that outlives a call"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_symbols.py LIBQUIRE.A")
    found = list(complaints(sys.argv[1]))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
