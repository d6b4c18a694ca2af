#!/usr/bin/env python3
"""Follows the relative links of every tracked Markdown file: the file has to be there, and the heading that #anchor names.

    links.py [ROOT]

Prints one line per broken link; exits 1 if there is any. Links to other sites are not looked at.
"""
import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)", re.M)
FENCE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1", re.M | re.S)
INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?:(?: {4}|\t).*\n?)+")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$", re.M)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def blanked(pattern, text):
    """Without what is code; line numbers stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def anchors(text):
    """The names that GitHub gives the headings."""
    found, seen = set(), {}
    for heading in HEADING.findall(blanked(FENCE, text)):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def fault(root, page, target):
    name, _, anchor = target.partition("#")
    file = (root / page).parent / name if name else root / page
    if name.startswith("/"):
        return "a link to a place in the tree is relative"
    if not file.exists():
        return "there is no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(errors="replace")):
        return f"{file.name} has no such heading"
    return None


def broken_links(root):
    pages = subprocess.run(["git", "-C", str(root), "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout
    for page in pages.splitlines():
        if not (root / page).is_file():
            continue
        text = (root / page).read_text(errors="replace")
        for code in (FENCE, INDENTED, INLINE_CODE):
            text = blanked(code, text)
        for match in LINK.finditer(text):
            target = match[1] or match[2]
            if ELSEWHERE.match(target):
                continue
            reason = fault(root, page, target)
            if reason:
                yield f"{page}:{text.count(chr(10), 0, match.start()) + 1}: {target}: {reason}"


def main():
    found = list(broken_links(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2])))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
