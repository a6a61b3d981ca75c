"""Changes the product in small ways, one at a time, and counts how many of the changes the tests of the same layer find.

usage: mutants.py BUILD [--count N] [--seed N] [--layers LIST] [--json FILE]

BUILD is a folder of its own (`meson setup BUILD -Dtests=enabled -Doptimization=1`), which this configures where it is missing. The sources are changed in a copy below BUILD. A change is one operator, one
constant, one condition or one statement of a line of code; where it does not compile, another one is drawn. It is found ("killed") when the layer's test program fails, or takes ten
times as long. Survivors are printed as the lines that they changed: each is a missing test, or a change that makes no difference.
"""

import argparse
import json
import pathlib
import random
import re
import shutil
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
TOO_LONG = 10  # times what the tests take unchanged
MAX_SECONDS = 300


def layers_of(root):
    """Folder of each layer that has a test program."""
    found = {}
    for folder in [*(root / "src").iterdir(), root / "loaders", root / "models"]:
        if folder.is_dir() and any((root / "tests" / folder.name).glob("**/*_test.cpp")):
            found[folder.name] = folder
    return found


def code_lines(text):
    """(number, line) of what is code: no comment, no string, no preprocessor, no declaration that tests cannot see."""
    masked = language.CPP_PIECE.sub(lambda piece: re.sub(r"[^\n]", "\x00", piece[0]), text)
    for number, line in enumerate(masked.splitlines()):
        if line.strip() and "\x00" not in line and not line.lstrip().startswith(("#", "static_assert", "namespace", "using", "template", "struct", "class", "case", "private", "public")):
            yield number, line


def mutants_of(text):
    """Every (number, changed line) of a source."""
    for number, line in code_lines(text):
        for pattern, instead in CHANGES:
            for found in re.finditer(pattern, line):
                if instead == "if (negated":
                    end = closing(line, found.end() - 1)
                    changed = f"{line[:found.end()]}!({line[found.end():end]}){line[end:]}" if end else None
                else:
                    changed = line[:found.start()] + found.expand(instead) + line[found.end():]
                if changed and changed != line:
                    yield number, changed


def closing(line, at):
    """The place of the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(line)):
        depth += {"(": 1, ")": -1}.get(line[place], 0)
        if depth == 0:
            return place
    return None


class Mutation:
    def __init__(self, build):
        self.build = build.resolve()
        self.source = self.build / "mutated-source"
        self.times = {}

    def prepare(self):
        names = subprocess.run(["git", "ls-files"], cwd=repository.ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        for name in names:
            target = self.source / name
            text = (repository.ROOT / name).read_bytes()
            if not target.exists() or target.read_bytes() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(text)
                shutil.copymode(repository.ROOT / name, target)
        if not (self.build / "build.ninja").exists():
            subprocess.run(["meson", "setup", self.build, self.source, "-Dtests=enabled", "-Dbench=disabled", "-Doptimization=1", "-Ddebug=false", "-Dunity=on", "-Dunity_size=6"], check=True)

    def build_tests(self, layer):
        target = f"tests/{layer}/{layer}_test"
        return subprocess.run(["ninja", "-C", self.build, target], capture_output=True, text=True, check=False).returncode == 0

    def tests_pass(self, layer):
        """None where the tests take too long."""
        limit = min(MAX_SECONDS, TOO_LONG * self.times[layer] + 5) if layer in self.times else MAX_SECONDS
        started = time.monotonic()
        try:
            run = subprocess.run([self.build / "tests" / layer / f"{layer}_test"], cwd=self.build / "tests" / layer, capture_output=True, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        self.times.setdefault(layer, time.monotonic() - started)
        return run.returncode == 0

    def tried(self, layer, path, number, line):
        """"killed", "survived" or "does not compile"."""
        place = self.source / path
        text = place.read_text()
        lines = text.splitlines()
        lines[number] = line
        place.write_text("\n".join(lines) + "\n")
        try:
            if not self.build_tests(layer):
                return "does not compile"
            return "survived" if self.tests_pass(layer) else "killed"
        finally:
            place.write_text(text)


def drawn(generator, folder, source):
    """A source of the layer and one of its mutants; longer sources are drawn more often."""
    every = []
    for path in repository.files(".cpp", under=source / folder):
        text = path.read_text()
        every += [(path.relative_to(source), number, line, text.splitlines()[number]) for number, line in mutants_of(text)]
    return generator.choice(every)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    mutation = Mutation(arguments.build)
    mutation.prepare()
    layers = {name: folder.relative_to(repository.ROOT) for name, folder in layers_of(repository.ROOT).items() if not arguments.layers or name in arguments.layers.split(",")}
    for layer in layers:
        if not mutation.build_tests(layer) or not mutation.tests_pass(layer):
            sys.exit(f"{layer}: its tests fail without a change")
    generator = random.Random(arguments.seed)
    rows = []
    while len(rows) < arguments.count:
        layer = list(layers)[len(rows) % len(layers)]
        path, number, line, was = drawn(generator, layers[layer], mutation.source)
        result = mutation.tried(layer, path, number, line)
        if result == "does not compile":
            continue
        rows.append({"layer": layer, "file": str(path), "line": number + 1, "was": was.strip(), "is": line.strip(), "result": result})
        print(f"{result:<9} {layer:<10} {path}:{number + 1}: {was.strip()}  ->  {line.strip()}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))
    killed = sum(row["result"] == "killed" for row in rows)
    print(f"{killed} of {len(rows)} found ({100 * killed / len(rows):.1f} %)")


if __name__ == "__main__":
    main()
