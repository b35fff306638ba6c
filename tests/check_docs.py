#!/usr/bin/env python3
# ctest: LABELS check TIMEOUT 60
"""Links in the Markdown pages lead somewhere, and docs/README.md leads to every page of docs/.

Links to other sites are not followed: the tests need no network.
"""

import re
import sys

from lib import sources

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)


def anchors(text):
    """The names that GitHub gives to the headings."""
    names, seen = set(), {}
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def links(text):
    for found in LINK.finditer(CODE.sub("", FENCE.sub("", text))):
        yield found.group(1) or found.group(2)


def main():
    root = sources.ROOT
    pages = [p for p in sources.all_files() if p.suffix == ".md"]
    texts = {p.resolve(): p.read_text(encoding="utf-8") for p in pages}
    problems, targets = [], {p: set() for p in texts}
    for page, text in texts.items():
        for link in links(text):
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            where = f"{page.relative_to(root.resolve())}: {link}"
            if not target.exists():
                problems.append(f"{where}: no such file")
            elif root.resolve() not in target.parents and target != root.resolve():
                problems.append(f"{where}: leads out of the repository")
            elif anchor and target in texts and anchor not in anchors(texts[target]):
                problems.append(f"{where}: no such heading")
            targets[page].add(target)

    index = (root / "docs" / "README.md").resolve()
    if index in targets:
        reached, todo = set(), [index]
        while todo:
            page = todo.pop()
            if page not in reached:
                reached.add(page)
                todo += [t for t in targets[page] if t in texts]
                todo += [t / "README.md" for t in targets[page] if (t / "README.md") in texts]
        docs = [p for p in texts if (root / "docs").resolve() in p.parents]
        problems += [f"docs/README.md does not lead to {p.relative_to(root.resolve())}" for p in docs
                     if p not in reached]
    sources.finish("pages", problems, len(pages))


if __name__ == "__main__":
    sys.exit(main())
