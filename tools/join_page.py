#!/usr/bin/env python3
"""Joins the chat page into one file, and writes the header fields it is sent with: its style and its script are named
in the Content-Security-Policy by their hashes, so that nothing else can run.

    tools/join_page.py src/server/page/chat.html OUT.html OUT.fields

A mark /*@ NAME NAME ... @*/ in the page stands for these files, next to it.
"""

import base64
import hashlib
import re
import sys
from pathlib import Path

MARK = re.compile(r"/\*@ ([a-z. ]+) @\*/")


def join(page):
    def files(mark):
        text = "".join((page.parent / name).read_text(encoding="utf-8") for name in mark[1].split())
        for word in ("</script", "</style", "<!--"):
            if word in text.lower():
                sys.exit(f"join_page: {mark[1]} must not hold {word}: it would end the element it is put into")
        return "\n" + text

    return MARK.sub(files, page.read_text(encoding="utf-8"))


def hash_of(html, element):
    found = re.findall(rf"<{element}[^>]*>(.*?)</{element}>", html, re.S)
    if len(found) != 1:
        sys.exit(f"join_page: the page has {len(found)} <{element}> elements: it must have 1")
    return "'sha256-" + base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode() + "'"


def fields(html):
    policy = {
        "default-src": "'none'",
        "script-src": hash_of(html, "script"),
        "style-src": hash_of(html, "style"),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
        "Cache-Control": "no-cache",
    }


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    html = join(Path(sys.argv[1]))
    Path(sys.argv[2]).write_bytes(html.encode())
    Path(sys.argv[3]).write_bytes("".join(f"{name}: {value}\r\n" for name, value in fields(html).items()).encode())


main()
