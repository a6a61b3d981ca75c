#!/usr/bin/env python3
"""Turns a help page (Markdown) into a manual page: man_page.py OUTPUT.1 VERSION PAGE.md COMMON.md

dsanalyze.md becomes dsanalyze(1), NAME.md becomes dsanalyze-NAME(1). The options that all commands share end each page of a command.
"""

import pathlib
import re
import sys

EXIT_STATUS = re.compile(r"^Exit codes: (.*)\.$", re.DOTALL)


def escaped(text):
    """Text as roff prints it: no backslash, hyphen or leading dot means anything."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\\&" + text if text.startswith((".", "'")) else text


def bold_options(text):
    return re.sub(r"(?<![\w\\-])((?:\\-){1,2}[a-z][a-z\\-]*)", r"\\fB\1\\fR", escaped(text))


def code(lines):
    """A fenced block: its options as tagged paragraphs, everything else as it stands."""
    out = []
    at = 0
    while at < len(lines):
        option = re.match(r"  (-\S.*?)(?:\s{2,}(\S.*))?$", lines[at])
        if option:
            names, text = option.group(1), [option.group(2) or ""]
            column = lines[at].index(option.group(2), len(names) + 2) if option.group(2) else 6
            at += 1
            while at < len(lines) and len(lines[at]) - len(lines[at].lstrip()) >= min(column, 6) and lines[at].strip():
                text.append(lines[at].strip())
                at += 1
            out += [".TP", bold_options(names), bold_options(" ".join(text).strip())]
            continue
        plain = []
        while at < len(lines) and not re.match(r"  -\S", lines[at]):
            plain.append(escaped(lines[at]))
            at += 1
        out += [".PP", ".nf", *plain, ".fi"]
    return out


def body(markdown):
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
            out += code(lines[at + 1 : end])
            at = end
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


def page(name, version, markdown, common):
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
        *body(rest),
        *(body(common) if name != "dsanalyze" else []),
        ".SH SEE ALSO",
        "\\fBdsanalyze\\fR(1)" if name != "dsanalyze" else "\\fBdsanalyze\\-profile\\fR(1), \\fBdsanalyze\\-whatif\\fR(1), and one page for each command",
    ]
    # A section's first paragraph needs no mark.
    lines = [line for line, before in zip(out, ["", *out]) if not (line == ".PP" and before.startswith(".SH"))]
    return "\n".join(lines) + "\n"


def main():
    output, version, source, common = sys.argv[1:]
    name = pathlib.Path(source).stem
    text = page(name, version, pathlib.Path(source).read_text(encoding="utf-8"), pathlib.Path(common).read_text(encoding="utf-8"))
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
