"""Writes a page's table of options from the tables that the program reads its options by.

usage: options_table.py PROGRAM PAGE [--check]

The table stands between two comments in the page (docs/commands.md). With --check nothing is written; the exit code is 1 where the table is another one.
"""

import difflib
import json
import pathlib
import re
import subprocess
import sys

begin, end = "<!-- options: src/cli/help/options_table.py writes this table -->\n", "<!-- end of options -->\n"
# By the names of their tables' groups; the others are named by the group itself.
topics = {"common": "every command", "accelerator": "what trains", "loader": "what feeds", "jobs": "several jobs on one server", "servers": "ranks on several servers",
          "launch": "a training of your own", "emulation": "configurations that are not here", "turns": "commands in turn", "read": "what is replayed", "sure": "how sure",
          "rates": "rates that are known", "strict": "", "resume": "how often it is stopped", "group": "the group", "configuration": "the configuration", "counts": "what counts"}


def table(options):
    rows = ["| command | about | options |", "| --- | --- | --- |"]
    for command, groups in options.items():
        for group, entries in groups.items():
            names = ["`{}`".format(re.sub(r"^-\w, ", "", name).split(" ")[0]) for name, _ in entries if name.startswith("-")]
            if names:
                rows.append("| {} | {} | {} |".format("" if command == "common" else "`{}`".format(command), topics.get(group, group), ", ".join(names)))
    return "\n".join(rows) + "\n"


def main():
    program, page = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    options = json.loads(subprocess.run([program, "__options"], stdout=subprocess.PIPE, check=True).stdout)
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit("{}: the comments around the table of options are missing".format(page))
    before, rest = text.split(begin)
    found, after = rest.split(end)
    wanted = "\n" + table(options) + "\n"
    if "--check" not in sys.argv:
        page.write_text(before + begin + wanted + end + after, encoding="utf-8")
    elif found != wanted:
        sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), page.name, "the program's options"))
        sys.exit(1)


if __name__ == "__main__":
    main()
