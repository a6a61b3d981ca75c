"""Changes the product in small ways, one at a time, and counts how many of the changes the tests of the same layer find.

usage: mutants.py BUILD FOLDER [--layers LIST] [--count N] [--seed N] [--again] [--list]

BUILD is a configured and built folder (`meson setup build/test -Dtests=enabled`); it is only read. FOLDER keeps what this makes of each layer: the mutated source, its program, and `results.json`. A run that was
cut off goes on where it was. The sources of the product are never touched.

A mutant differs from the source by one operator, one constant, one condition or one statement. Only its source is compiled and linked in front of the libraries, and only the layer's test program is run: first
the tests of like names, then the others. Where a layer has tests that run the program dsanalyze, those of like names come last. A mutant is killed when the tests fail, end by a signal, or take several times as
long. A survivor is a missing test, or a change that makes no difference; the latter are listed in equivalent_mutants.txt with the reason and are not drawn.

--count is per layer. --again runs the survivors of earlier runs once more. --list prints survivors only.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import language
import repository

# What a line is changed by: a pattern and what stands in its place.
CHANGES = ((r"(?<![<>=!+\-])<=(?!>)", "<"), (r"(?<![<>=!\-])>=", ">"), (r"(?<= )<(?= )", "<="), (r"(?<= )>(?= )", ">="), (r"==", "!="), (r"!=", "=="), (r"&&", "||"), (r"\|\|", "&&"),
           (r"(?<=[\w)\]] )\+(?= )", "-"), (r"(?<=[\w)\]] )-(?= )", "+"), (r"(?<=[\w)\]] )\*(?= [\w(])", "/"), (r"(?<=[\w)\]] )/(?= )", "*"), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
           (r"(?<![\w.'])0(?![\w.'])", "1"), (r"(?<![\w.'])1(?![\w.'])", "2"), (r"\bif \((?!const|auto)(?=[^;]*\)(?: |$))", "if (negated"), (r"std::min\b", "std::max"), (r"std::max\b", "std::min"),
           (r"\+=", "-="), (r"-=", "+="), (r"^(\s+)[\w.>\-]+\([^;{}]*\);$", r"\1;"))
# Lines that no test can see: declarations, and what only makes room or is faster.
UNSEEN = re.compile(r"\s*(#|static_assert|namespace|using|template|struct|class|case|private|public)|.*(\breserve\(|shrink_to_fit\(|__builtin_prefetch|fadvise\(|madvise\()")
TOO_LONG = 4  # times what the tests take unchanged
START_SECONDS = 20
EQUIVALENT = pathlib.Path(__file__).with_name("equivalent_mutants.txt")
QUICKLY = ("--abort-after=1", "--no-colors")
KILLED = ("failed", "crashed", "too long")

Mutant = collections.namedtuple("Mutant", "layer file line was now occurrence")


def closing(line, at):
    """The place of the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(line)):
        depth += {"(": 1, ")": -1}.get(line[place], 0)
        if depth == 0:
            return place
    return None


def changed_lines(line, masked):
    """Every line that one change makes of this one; strings and comments stay."""
    has_text = '"' in line
    for pattern, instead in CHANGES:
        for found in re.finditer(pattern, masked):
            if has_text and "+" in found[0]:  # texts are added, and nothing else is done with them
                continue
            if instead == "if (negated":
                end = closing(masked, found.end() - 1)
                changed = f"{line[:found.end()]}!({line[found.end():end]}){line[end:]}" if end else line
            else:
                changed = line[:found.start()] + found.expand(instead) + line[found.end():]
            if changed != line:
                yield changed


def mutants_of(layer, file, text):
    masked = language.CPP_PIECE.sub(lambda piece: re.sub(r"[^\n]", "\x00", piece[0]), text).splitlines()
    seen = collections.Counter()
    for number, line in enumerate(text.splitlines()):
        if UNSEEN.match(line):
            continue
        for changed in dict.fromkeys(changed_lines(line, masked[number])):
            yield Mutant(layer, file, number, line, changed, seen[line])
        seen[line] += 1


def equivalents(text):
    """(file, line, changed line) of each entry: the file, `- line`, `+ changed line`, the reason; an empty line in between."""
    found = set()
    for entry in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in entry.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        if len(lines) < 4 or not lines[1].startswith("- ") or not lines[2].startswith("+ "):
            sys.exit(f"{EQUIVALENT.name}: an entry is a file, a line, the changed line and a reason: {lines[0]}")
        found.add((lines[0], lines[1][2:].strip(), lines[2][2:].strip()))
    return found


def alike(source, test):
    """Whether their names have a word in common."""
    return bool(set(source.split("_")) & set(test.split("_")) - {"test"})


class Build:
    """What a built folder knows: how each source is compiled, how each test program is linked and run."""

    def __init__(self, folder):
        self.folder = folder.resolve()
        self.compiled = {}  # source: (output, arguments)
        for entry in json.loads(self.ninja("-t", "compdb", "cpp_COMPILER")):
            file = pathlib.Path(entry["directory"]) / entry["file"]
            sources = re.findall(r"#include\s*<(.+)>", file.read_text()) if "-unity" in file.name else [file]
            for source in sources:
                self.compiled.setdefault(pathlib.Path(os.path.normpath(source)), (entry["output"], shlex.split(entry["command"])))
        self.tests = {test["name"]: test for test in json.loads((self.folder / "meson-info" / "intro-tests.json").read_text())}

    def ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", self.folder, "--quiet", *arguments], capture_output=True, text=True, check=True).stdout

    def link_command(self, target):
        return shlex.split(self.ninja("-t", "commands", target).splitlines()[-1])

    def compile_command(self, source):
        """Without optimisation, and with the library's own assertions: a place beyond a vector's end is a failure."""
        arguments = list(self.compiled[source][1])
        for option, values in (("-MD", 0), ("-MQ", 1), ("-MF", 1), ("-o", 1), ("-c", 1)):
            at = arguments.index(option)
            del arguments[at:at + values + 1]
        return [one for one in arguments if not re.fullmatch(r"-O\d|-Werror", one)] + ["-O0", "-w", "-D_GLIBCXX_ASSERTIONS", "-UFMT_HEADER_ONLY", "-iquote", str(source.parent)]


class Layer:
    """A layer's sources, its test program, and how long its tests take."""

    def __init__(self, name, build, folder):
        self.name, self.build, self.folder = name, build, folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        library = f"/libdsanalyze_{name}.a.p/"
        self.sources = sorted(source for source, (output, _) in build.compiled.items() if library in output and source.is_relative_to(repository.ROOT) and source.suffix == ".cpp")
        self.test_names = [path.stem for path in repository.files(".cpp", under=repository.ROOT / "tests" / name) if path.stem.endswith("_test")]
        self.link = build.link_command(f"tests/{name}/{name}_test")
        self.shared = next((argument for argument in self.link if "/libdsanalyze.so" in argument), None)  # that the test program uses instead of the layer's own library
        self.environment = build.tests[name]["env"]
        # Tests in Python that run the program dsanalyze, which is linked with the changed source for them.
        self.scripts = [test for test in build.tests.values() if len(test["cmd"]) > 1 and "DSANALYZE" in test["env"] and pathlib.Path(os.path.normpath(test["cmd"][1])).parent.name == name]
        self.usual = None

    def precompile(self):
        """A header of what the layer includes of other libraries, compiled once."""
        files = (*self.sources, *repository.files(".hpp", under=self.sources[0].parent))
        includes = sorted({line for path in files for line in re.findall(r"^#include <[\w/]+(?:\.hpp)?>|^#include <fmt/\w+\.h>", path.read_text(), re.M)})
        header = self.folder / "others.hpp"
        text = "\n".join(includes) + "\n"
        if not (self.folder / "others.hpp.gch").exists() or not header.exists() or header.read_text() != text:
            header.write_text(text)
            subprocess.run([*self.build.compile_command(self.sources[0]), "-x", "c++-header", "-o", self.folder / "others.hpp.gch", header], cwd=self.build.folder, capture_output=True, check=False)

    def compile(self, source, text, output):
        place = output.with_suffix(".cpp")
        place.write_text(text)
        command = [*self.build.compile_command(source), "-include", self.folder / "others.hpp", "-o", output, "-c", place]
        return subprocess.run(command, cwd=self.build.folder, capture_output=True, check=False).returncode == 0

    def prepare(self):
        """How long the tests take without a change; they are run where the test program is newer than the last time."""
        self.precompile()
        kept = self.folder / "usual.json"
        program = self.build.folder / "tests" / self.name / f"{self.name}_test"
        if kept.exists() and kept.stat().st_mtime > program.stat().st_mtime:
            self.usual = json.loads(kept.read_text())
            return
        started = time.monotonic()
        result, by = self.run([program, *QUICKLY], self.environment, 600)
        if result != "survived":
            sys.exit(f"{self.name}: its tests fail without a change: {by}")
        self.usual = time.monotonic() - started
        kept.write_text(json.dumps(self.usual))

    def linked(self, link, changed, name):
        """A program with the changed source's functions in front of the library's own: these are built to be replaced (-fPIC), so that each call finds the changed ones."""
        program = str(self.folder / name)
        command = list(link)
        command[command.index("-o") + 1] = program
        at = next(place for place, argument in enumerate(command) if argument.endswith(".o"))
        done = subprocess.run([*command[:at], *([changed] if changed else []), "-fuse-ld=gold", "-Wl,-z,muldefs", *command[at:]], cwd=self.build.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{name} of {self.name} cannot be linked; is {self.build.folder} built? {done.stderr[-300:]}")
        return program

    def parts(self, source):
        """The arguments of the test program, one run after the other: tests of like names first."""
        like = [f"*/{test}.cpp" for test in self.test_names if alike(source.stem, test)]
        return [(f"-sf={','.join(like)}",), (f"-sfe={','.join(like)}",)] if like and len(like) < len(self.test_names) else [()]

    def run(self, command, environment, limit):
        """(result, the test that failed)"""
        scratch = self.folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        process = subprocess.Popen(command, cwd=self.build.folder, env={**os.environ, **environment, "TMPDIR": str(scratch)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True)
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "too long", f"{limit:.0f} s"
        if process.returncode == 0:
            return "survived", ""
        cases = re.findall(r"^(?:TEST CASE:|FAIL:|ERROR:)\s+(.*)", output, re.M)
        crashed = process.returncode < 0 or "FATAL ERROR: test case CRASHED" in output
        return "crashed" if crashed else "failed", cases[-1] if cases else output[-100:]

    def tried(self, mutant):
        source = repository.ROOT / mutant.file
        lines = source.read_text().splitlines()
        lines[mutant.line] = mutant.now
        changed = self.folder / "mutated.o"
        if not self.compile(source, "\n".join(lines) + "\n", changed):
            return "does not compile", ""
        program = self.linked(self.link, None if self.shared else changed, "mutated")
        environment = self.environment
        if self.shared:
            self.linked(self.build.link_command(self.shared), changed, "libdsanalyze.so.0")
            environment = {**environment, "LD_LIBRARY_PATH": str(self.folder)}
        result, by = "survived", ""
        for part in self.parts(source):
            if result == "survived":
                result, by = self.run([program, *QUICKLY, *part], environment, TOO_LONG * self.usual + START_SECONDS)
        for test in self.scripts:
            if result == "survived" and alike(source.stem, pathlib.Path(test["cmd"][1]).stem):
                with_program = {**test["env"], "DSANALYZE_DATA_DIR": str(repository.ROOT), "DSANALYZE": self.linked(self.build.link_command("dsanalyze"), changed, "dsanalyze")}
                result, by = self.run([*test["cmd"], "--failfast"], with_program, test["timeout"])
        return result, by


def drawn(layer, seed):
    """The layer's mutants in an order that the seed decides, and that other changes of the sources leave as it is."""
    every = [mutant for source in layer.sources for mutant in mutants_of(layer.name, str(source.relative_to(repository.ROOT)), source.read_text())]
    return sorted(every, key=lambda mutant: hashlib.sha256(f"{seed} {key(mutant)}".encode()).digest())


def key(mutant):
    return "\n".join((mutant.file, mutant.was.strip(), mutant.now.strip(), str(mutant.occurrence)))


def table(rows):
    lines = ["| layer | mutants | failed | crashed | too long | survived | killed |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name in [*dict.fromkeys(row["layer"] for row in rows), "all"]:
        of_layer = [row["result"] for row in rows if name in (row["layer"], "all")]
        killed = sum(result in KILLED for result in of_layer)
        lines.append(f"| {name} | {len(of_layer)} | {' | '.join(str(of_layer.count(result)) for result in (*KILLED, 'survived'))} | {100 * killed / max(1, len(of_layer)):.0f} % |")
    return "\n".join(lines)


def shown(row):
    return f"{row['result']:<9} {row['file']}:{row['line']}: {row['was']}  ->  {row['now']}" + (f"   [{row['by']}]" if row["by"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", default="base,core,gate,report,models,ranks,doctor,validate,cuda,trainer,cli,attach,client,share,transport,profile,loaders")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    without_difference = equivalents(EQUIVALENT.read_text())
    build = Build(arguments.build)
    rows = []
    for name in arguments.layers.split(","):
        layer = Layer(name, build, arguments.folder.resolve())
        results = layer.folder / "results.json"
        known = json.loads(results.read_text()) if results.exists() else {}
        of_layer = 0
        for mutant in drawn(layer, arguments.seed):
            if of_layer == arguments.count:
                break
            if (mutant.file, mutant.was.strip(), mutant.now.strip()) in without_difference:
                continue
            row = known.get(key(mutant))
            if row is None or (arguments.again and row["result"] == "survived"):
                if arguments.list:
                    continue
                if layer.usual is None:
                    layer.prepare()
                started = time.monotonic()
                result, by = layer.tried(mutant)
                row = {"layer": name, "file": mutant.file, "line": mutant.line + 1, "was": mutant.was.strip(), "now": mutant.now.strip(), "result": result, "by": by,
                       "seconds": round(time.monotonic() - started, 1)}
                known[key(mutant)] = row
                results.write_text(json.dumps(known, indent=1))
                print(shown(row), flush=True)
            if row["result"] != "does not compile":
                of_layer += 1
                rows.append(row)
    print("\n".join(shown(row) for row in rows if row["result"] == "survived"))
    print(table(rows))


if __name__ == "__main__":
    main()
