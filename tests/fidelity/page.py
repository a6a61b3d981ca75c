#!/usr/bin/env python3
"""Writes the tables of docs/measured/fidelity.md from the fidelity tests' own output, or checks that they are what the tests say.

usage: page.py TEST_PROGRAM PAGE [--write]

Each table stands between <!-- rows: NAME --> and <!-- end of rows -->. The program appends a line "NAME<tab>| cell | ... |" for each row to the file that the
environment variable DSANALYZE_FIDELITY_ROWS names.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HEAD = "| reference | what | paper | ours | difference | allowed | assumed, fitted |\n| --- | --- | --- | --- | --- | --- | --- |\n"
TABLE = re.compile(r"(<!-- rows: (?P<name>[\w ]+) -->\n)(?P<body>.*?)(<!-- end of rows -->)", re.DOTALL)


def rows_of(program):
    """The rows of each table, in the order of the test program, which is that of its files and does not change."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows"
        run = subprocess.run([program, "--order-by=file"], env={**os.environ, "DSANALYZE_FIDELITY_ROWS": str(path)}, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{program} fails:\n{run.stdout}{run.stderr}")
        tables = {}
        for line in path.read_text().splitlines():
            name, row = line.split("\t")
            tables.setdefault(name, []).append(row)
        return tables


def filled(page, tables):
    """The page with its tables; refuses one that lacks a table or names one that is not there."""
    named = [match["name"] for match in TABLE.finditer(page)]
    if sorted(named) != sorted(tables):
        sys.exit(f"the page has the tables {sorted(named)}, the tests write {sorted(tables)}")
    return TABLE.sub(lambda match: match[1] + HEAD + "\n".join(tables[match["name"]]) + "\n" + match[4], page)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    path = pathlib.Path(arguments[1])
    page = path.read_text()
    new = filled(page, rows_of(arguments[0]))
    if "--write" in sys.argv:
        path.write_text(new)
    elif new != page:
        differing = [f"- {old}\n+ {line}" for old, line in zip(page.splitlines(), new.splitlines()) if old != line]
        sys.exit(f"{path} is not what the tests say (page.py PROGRAM PAGE --write fixes it):\n" + "\n".join(differing[:20]))


if __name__ == "__main__":
    main()
