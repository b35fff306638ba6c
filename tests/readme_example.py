#!/usr/bin/env python3
# ctest: LABELS docs TIMEOUT 30
"""The code in README.md is examples/hello.cc, which is compiled and run by the test example_hello."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
readme = (root / "README.md").read_text(encoding="utf-8")
shown = re.search(r"<!-- examples/hello\.cc -->\n```cpp\n(.*?)```\n<!-- /examples/hello\.cc -->", readme, re.DOTALL)
if shown is None:
    sys.exit("README.md: the block between the examples/hello.cc comments is missing")
if shown.group(1) != (root / "examples/hello.cc").read_text(encoding="utf-8"):
    sys.exit("README.md: the code differs from examples/hello.cc; copy the file into the block")
print("README.md shows examples/hello.cc")
