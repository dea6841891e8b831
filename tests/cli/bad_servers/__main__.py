"""`python -m tests.cli.bad_servers`: every command against every bad server, as a table; exit code 1 when one is wrong.

--nine       only refused, silent, slow, HTML, half JSON, null, 401, 403 and 500
--late       also servers that are good at first
--only TEXT  only calls that have this in them
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.cli.bad_servers.rows import COMPLETION, ROWS
from tests.cli.bad_servers.servers import LATE, NINE, OTHERS
from tests.cli.bad_servers.table import all_tried, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nine", action="store_true")
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--only", default="")
    flags = parser.parse_args()
    rows = [row for row in (*ROWS, COMPLETION) if flags.only in row.words]
    servers = NINE if flags.nine else (*NINE, *OTHERS)
    calls = [(row, server, False) for row in rows for server in servers]
    if flags.late:
        calls += [(row, server, True) for row in rows if row.late for server in LATE if server in servers]
    with tempfile.TemporaryDirectory() as folder:
        cells = all_tried(calls, Path(folder))
    print("\n".join(lines(cells)))
    wrong = [(cell, faults) for cell in cells if (faults := cell.faults())]
    for cell, faults in wrong:
        print(f"WRONG: {cell.row.name} | {cell.server}: {'; '.join(faults)}\n{cell.stderr[-1500:]}", file=sys.stderr)
    print(f"\n{len(cells)} calls, {len(wrong)} wrong, the longest {max(cell.seconds for cell in cells):.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
