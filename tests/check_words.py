#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 60
"""Nothing of the machine a change was made on, and nothing left half done, gets into the repository."""

import re

from lib import sources

# Written so that this file does not match itself.
PATTERNS = [
    (re.compile(r"(?<![\w.])/(?:wor[k]|roo[t]|hom[e]/\w+|Users/\w+)/"), "a path of one machine"),
    (re.compile(r"^(?:<{7}|>{7}|={7})(?: |$)", re.MULTILINE), "a merge conflict"),
    (re.compile(r"\b(?:FIXM[E]|XX[X])\b"), "a note to oneself; open an issue or do it"),
    (re.compile(r"[ \t]+$", re.MULTILINE), "a space at the end of a line"),
    (re.compile(r"\r"), "a carriage return"),
]
TEXT = {".h", ".cc", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".toml", ".yml", ".yaml", ""}


def main():
    problems, checked = [], 0
    for path in sources.all_files():
        if path.suffix not in TEXT or path.name == "LICENSE" or path.stat().st_size > 1 << 20:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        checked += 1
        for pattern, what in PATTERNS:
            for found in pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                problems.append(f"{sources.relative(path)}:{line}: {what}")
    sources.finish("files", problems, checked)


if __name__ == "__main__":
    main()
