#!/usr/bin/env python3
# ctest: TIMEOUT 180 PROCESSORS 2 COST 40 FULL
"""2 GiB go through `twinrail send` and `recv` while the fast rail is cut every 100 ms."""

import pathlib
import shutil
import sys
import tempfile
import unittest

from lib import program, transfer

SIZE = 2 << 30


class TwoGiB(unittest.TestCase):
    def test_two_gib_arrive_whole_while_the_fast_rail_is_cut(self):
        with tempfile.TemporaryDirectory() as folder:
            report = transfer.check_under_cuts(self, pathlib.Path(folder), SIZE)
            print(f"{report['seconds']:.1f} s, {report['cuts']}, {report['rails']}")


if __name__ == "__main__":
    program.skip_without_program()
    if shutil.disk_usage(tempfile.gettempdir()).free < 2 * SIZE + (1 << 30):
        print("skipped: less than 5 GiB free for temporary files", file=sys.stderr)
        sys.exit(77)
    unittest.main()
