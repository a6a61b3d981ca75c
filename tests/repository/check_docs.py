"""The documents and the examples for CI speak of things that exist: links, paths, scripts, commands and options; the PyTorch script is ten lines that
Python can read.

usage: check_docs.py [PROGRAM]      without PROGRAM, commands and options are not looked up
"""

import re
import subprocess
import sys
import unittest

import repository

PROGRAM = None

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CONSOLE_BLOCK = re.compile(r"<!-- console: .*?<!-- end of console -->", re.DOTALL)
PLACEHOLDER = re.compile(r"[A-Z]{3,}|[<>{*…]|\.\.\.")
TOP_FOLDERS = ("src/", "include/", "loaders/", "models/", "configs/", "reports/", "tests/", "docs/", "scripts/", ".ci/")
# Options of other programs that the documents may name.
OTHERS_OPTIONS = {"--suite", "--buildtype", "--no-install-recommends", "--prefix", "--oversubscribe", "--allow-run-as-root", "--bind-to", "--reconfigure", "--no-rebuild"}


def documents():
    return [path for path in [repository.ROOT / "README.md", repository.ROOT / "CONTRIBUTING.md"] + repository.files(".md", under=repository.ROOT / "docs")]


def anchor(heading):
    """As code hosts make it from a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")


def without_fences(text):
    return FENCE.sub("", text)


def broken_links(path, text):
    broken = []
    for target in LINK.findall(without_fences(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, fragment = target.partition("#")
        place = (path.parent / file) if file else path
        if not place.exists():
            broken.append(f"link to {target}: not there")
        elif fragment and place.suffix == ".md" and fragment not in {anchor(heading) for heading in HEADING.findall(place.read_text())}:
            broken.append(f"link to {target}: no such heading")
    return broken


def missing_paths(text):
    """Paths of the repository in `code`; those with a placeholder in capitals stand for many."""
    missing = []
    for code in CODE.findall(without_fences(text)):
        word = code.split()[0].rstrip(":,")
        if word.startswith(TOP_FOLDERS) and not PLACEHOLDER.search(word) and not (repository.ROOT / word).exists():
            missing.append(f"`{word}`: not there")
    return missing


def command_lines(text):
    """Every command line in fenced console and shell blocks (continued lines joined), its words."""
    lines = []
    for language, body in FENCE.findall(text):
        if language in ("console", "sh", "bash", "shell"):
            for line in body.replace("\\\n", " ").splitlines():
                if language == "console" and not line.startswith("$ "):
                    continue
                line = line.removeprefix("$ ").split("#")[0].strip()
                for command in re.split(r"\s(?:&&|\|\||\||;)\s", line):
                    if command.strip():
                        lines.append(command.split())
    return lines


def example_lines(text):
    """Every `dsanalyze ...` of an example for CI, its words: in scripts (continued lines joined), in the quoted commands within them, in code of remarks."""
    lines = []
    for line in text.replace("\\\n", " ").splitlines():
        remark = line.lstrip().startswith(("#", "//"))
        parts = CODE.findall(line) if remark else [re.sub(r"'[^']*'", "'...'", line), *re.findall(r"'([^']*)'", line)]
        for command in [command for part in parts for command in re.split(r"[;|&#]", part)]:
            words = command.replace("'", " ").split()
            begin = next((at for at, word in enumerate(words) if is_program(word)), len(words))
            if begin < len(words):
                lines.append(words[begin:])
    return lines


def help_text(*words):
    return subprocess.run([PROGRAM, *words, "--help", *(["all"] if words else [])], capture_output=True, text=True, timeout=60, check=False)


class Helps:
    """--help all of commands, asked once each."""

    def __init__(self, ask=help_text):
        self.ask = ask
        self.known = {}

    def of(self, *words):
        """The text, or None when there is no such command."""
        if words not in self.known:
            run = self.ask(*words)
            self.known[words] = run.stdout if run.returncode == 0 else None
        return self.known[words]

    def problems(self, words):
        """Of a command line `dsanalyze ...`: unknown command, unknown option."""
        command = []
        for word in words[1:]:
            if not re.fullmatch(r"[a-z][a-z-]*", word) or (command and not self.has_subcommand(command, word)):
                break
            command.append(word)
        text = self.of(*command)
        if text is None:
            return [f"`{' '.join(words)}`: there is no command {' '.join(command)}"]
        own = words[:words.index("--")] if "--" in words else words  # behind it stands another program's command
        options = {option for word in own for option in OPTION.findall(word.split("=")[0])} - {"--help", "--version"}
        return [f"`{' '.join(words)}`: no option {option}" for option in sorted(options) if option not in OPTION.findall(text)]

    def has_subcommand(self, command, word):
        return command[0] == "dataset" and len(command) == 1 and self.of(*command, word) is not None


def is_program(word):
    return word == "dsanalyze" or word.endswith("/dsanalyze")


class Documents(unittest.TestCase):
    def each(self, problems_of):
        found = [f"{repository.name(path)}: {problem}" for path in documents() for problem in problems_of(path, CONSOLE_BLOCK.sub("", path.read_text()))]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_links_lead_somewhere(self):
        self.each(broken_links)

    def test_paths_exist(self):
        self.each(lambda path, text: missing_paths(text))

    def test_scripts_in_command_lines_exist(self):
        def problems(_, text):
            scripts = [words[0] for words in command_lines(text) if words[0].startswith(TOP_FOLDERS)]
            return [f"{script}: not there" for script in scripts if not (repository.ROOT / script).exists()]

        self.each(problems)

    def test_commands_and_options_exist_in_the_program(self):
        if PROGRAM is None:
            self.skipTest("no program given")
        helps = Helps()
        self.each(lambda path, text: [problem for words in command_lines(text) if is_program(words[0]) for problem in helps.problems(words)])

    def test_examples_for_ci_call_the_program_as_it_is(self):
        for example in sorted(path for path in (repository.ROOT / "docs" / "examples").iterdir() if path.is_file()):
            with self.subTest(example.name):
                lines = example_lines(example.read_text())
                self.assertIn("gate", [words[1] for words in lines])
                if PROGRAM is not None:
                    self.assertEqual([problem for words in lines for problem in Helps().problems(words)], [])

    def test_every_option_that_the_first_pages_name_is_in_some_help(self):
        if PROGRAM is None:
            self.skipTest("no program given")
        helps = Helps()
        commands = [(), *((command,) for command in ("profile", "share", "doctor", "simulate", "report", "whatif", "gate", "list", "dataset", "verify-resume")),
                    *(("dataset", word) for word in ("make", "info", "index", "verify", "convert"))]
        known = {option for command in commands for option in OPTION.findall(helps.of(*command) or "")} | OTHERS_OPTIONS
        for script in ("setup", "demo", "test"):
            known |= set(OPTION.findall((repository.ROOT / "scripts" / script).read_text()))
        pages = [repository.ROOT / "README.md", repository.ROOT / "docs" / "commands.md"]
        named = {option for page in pages for option in OPTION.findall(CONSOLE_BLOCK.sub("", page.read_text()))}
        self.assertFalse(sorted(named - known))


class TheCheckItself(unittest.TestCase):
    def test_broken_links_and_paths_are_found(self):
        readme = repository.ROOT / "README.md"
        self.assertTrue(broken_links(readme, "[x](nowhere.md)"))
        self.assertTrue(broken_links(readme, "[x](CONTRIBUTING.md#no-such-heading)"))
        self.assertFalse(broken_links(readme, "[x](LICENSE) [y](https://example.org)"))
        self.assertTrue(missing_paths("see `src/nowhere/x.cpp`"))
        self.assertFalse(missing_paths("write `src/cli/NAME.cpp` beside `tests/repository/check_docs.py`"))

    def test_unknown_commands_and_options_are_found(self):
        def ask(*words):
            class Run:
                returncode = 0 if words in ((), ("profile",)) else 2
                stdout = "--seed --accelerator KIND"

            return Run

        helps = Helps(ask)
        self.assertFalse(helps.problems("dsanalyze profile data --accelerator emulated:2000".split()))
        self.assertTrue(helps.problems("dsanalyze profile data --no-such 3".split()))
        self.assertTrue(helps.problems("dsanalyze explain data".split()))

    def test_command_lines_are_read_from_fences(self):
        text = "```console\n$ scripts/demo && dsanalyze list\noutput --of-it\n```\n```sh\na \\\n  --b\n```\n"
        self.assertEqual(command_lines(text), [["scripts/demo"], ["dsanalyze", "list"], ["a", "--b"]])

    def test_command_lines_are_read_from_examples(self):
        text = "# see dsanalyze, and `dsanalyze list x`\n  - run: for a in 1; do b/dsanalyze gate \\\n  --baseline-command 'old/dsanalyze profile data' --x; done  # y\n"
        self.assertEqual(example_lines(text), [["dsanalyze", "list", "x"], ["b/dsanalyze", "gate", "--baseline-command", "...", "--x"],
                                               ["old/dsanalyze", "profile", "data"]])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
