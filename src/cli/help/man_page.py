#!/usr/bin/env python3
"""Turns a help page (Markdown) into a manual page: man_page.py OUTPUT.1 VERSION PROGRAM PAGE.md COMMON.md

dsanalyze.md becomes dsanalyze(1), NAME.md becomes dsanalyze-NAME(1). The program knows its options: they stand where the page says which of them belong.
The options that all commands share end each page of a command.
"""

import json
import pathlib
import re
import subprocess
import sys

OPTIONS = re.compile(r"<!-- options: (\S+) \d+ -->$")
EXIT_STATUS = re.compile(r"^Exit codes: (.*)\.$", re.DOTALL)


def escaped(text):
    """Text as roff prints it: no backslash, hyphen or leading dot means anything."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\\&" + text if text.startswith((".", "'")) else text


def bold_options(text):
    return re.sub(r"(?<![\w\\-])((?:\\-){1,2}[a-z][a-z\\-]*)", r"\\fB\1\\fR", escaped(text))


def list_lines(text):
    """A text whose line breaks stay."""
    return [line for part in text.splitlines() for line in (".br", bold_options(part))][1:]


def body(markdown, groups):
    """`groups`: of the page's options, [names, text] each."""
    out = []
    lines = markdown.splitlines()
    at = 0
    paragraph = []

    def end_paragraph():
        if not paragraph:
            return
        text = " ".join(paragraph)
        exits = EXIT_STATUS.match(text)
        if exits:
            out.append(".SH EXIT STATUS")
            for part in exits.group(1).split(", "):
                number, _, meaning = part.partition(" ")
                out.extend([".TP", escaped(number), escaped(meaning)])
        else:
            out.extend([".PP", bold_options(text)])
        paragraph.clear()

    while at < len(lines):
        line = lines[at]
        if line.startswith("```"):
            end_paragraph()
            end = next(place for place in range(at + 1, len(lines)) if lines[place].startswith("```"))
            out += [".PP", ".nf", *map(escaped, lines[at + 1 : end]), ".fi"]
            at = end
        elif options := OPTIONS.match(line):
            end_paragraph()
            for names, text in groups[options.group(1)]:
                out += [".TP", bold_options(names), *list_lines(text)]
        elif line.startswith("## "):
            end_paragraph()
            out.append(f'.SH "{escaped(line[3:].upper())}"')
        elif not line.strip():
            end_paragraph()
        else:
            paragraph.append(line)
        at += 1
    end_paragraph()
    return out


def page(name, version, options, markdown, common):
    title, _, rest = markdown.partition("\n")
    title = title.removeprefix("# ")
    command = f"dsanalyze-{name}" if name != "dsanalyze" else name
    first = re.split(r"(?<=[a-z)\]])[.:](?:\s|$)", " ".join(rest.strip().split("\n\n")[0].split()))[0]
    synopsis = title if name != "dsanalyze" else "dsanalyze COMMAND [options]"
    summary = first if name != "dsanalyze" else title.partition(": ")[2]
    out = [
        f'.TH "{escaped(command.upper())}" "1" "" "dsanalyze {version}" "dsanalyze"',
        ".SH NAME",
        f"{escaped(command)} \\- {escaped(summary[0].lower() + summary[1:])}",
        ".SH SYNOPSIS",
        bold_options(synopsis),
        ".SH DESCRIPTION",
        *body(rest, options.get(name)),
        *(body(common, options["common"]) if name != "dsanalyze" else []),
        ".SH SEE ALSO",
        "\\fBdsanalyze\\fR(1)" if name != "dsanalyze" else "\\fBdsanalyze\\-profile\\fR(1), \\fBdsanalyze\\-whatif\\fR(1), and one page for each command",
    ]
    # A section's first paragraph needs no mark.
    lines = [line for line, before in zip(out, ["", *out]) if not (line == ".PP" and before.startswith(".SH"))]
    return "\n".join(lines) + "\n"


def main():
    output, version, program, source, common = sys.argv[1:]
    options = json.loads(subprocess.run([pathlib.Path(program).resolve(), "__options"], stdout=subprocess.PIPE, check=True).stdout)
    name = pathlib.Path(source).stem
    text = page(name, version, options, pathlib.Path(source).read_text(encoding="utf-8"), pathlib.Path(common).read_text(encoding="utf-8"))
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
