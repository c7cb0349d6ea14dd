#!/usr/bin/env python3
"""Fails when an include under src/ goes against the arrows of docs/DESIGN.md, section "The house".

A part may include its own headers and those of the parts that its arrows reach; quire.h is for all. The test
link enforces the same for calls: each test links only the archives of the parts that its own part may know.
"""

import pathlib
import re
import sys

# part -> the parts that its arrows point to
ARROWS = {
    "base": [],
    "text": ["base"],
    "model": ["base"],
    "plan": ["base"],
    "arch": ["model", "plan", "base"],
    "cpu": ["plan", "base"],
    "cuda": ["plan", "base"],
    "engine": ["arch", "cpu", "cuda", "text", "base"],
    "server": ["engine", "base"],
    "cli": ["server", "engine", "base"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def reach(part, on_way=()):
    """All parts that the arrows of a part lead to, itself among them."""
    if part in on_way:
        sys.exit(f"check_includes: the arrows make a circle: {' -> '.join((*on_way, part))}")
    found = {part}
    for target in ARROWS[part]:
        found |= reach(target, (*on_way, part))
    return found


def complaints(root):
    for file in sorted((root / "src").rglob("*")):
        if file.suffix not in (".c", ".h", ".cu", ".cuh"):
            continue
        part = file.relative_to(root / "src").parts[0]
        if part not in ARROWS:
            yield f"{file}: src/{part}/ is no part that tools/check_includes.py knows"
            continue
        allowed = reach(part)
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found or found.group(1) == "quire.h":
                continue
            target = found.group(1).split("/")[0]
            if "/" not in found.group(1) or target not in ARROWS:
                yield f'{file}:{number}: write includes as "part/file.h", not "{found.group(1)}"'
            elif target not in allowed:
                yield f"{file}:{number}: {part} may not include {target} ({found.group(1)})"
    for number, line in enumerate((root / "include/quire.h").read_text().splitlines(), 1):
        if INCLUDE.match(line):
            yield f"include/quire.h:{number}: the public header includes nothing of quire's"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = list(complaints(root))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
