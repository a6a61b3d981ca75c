"""The completion scripts in the shells themselves; a shell that is not installed is skipped."""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x07")


class Completions(ProgramTest):
    def setUp(self):
        super().setUp()
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "dsanalyze").symlink_to(pathlib.Path(PROGRAM).resolve())
        self.environment["PATH"] = f"{bin_folder}:{self.environment['PATH']}"
        self.environment["HOME"] = str(self.folder)
        (self.folder / "a file.json").write_text("{}")

    def script(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")
        path = self.folder / f"completion.{shell}"
        path.write_text(self.succeeds("completions", shell).stdout)
        return path

    def test_an_unknown_shell_is_a_usage_error(self):
        self.assertIn("bash, fish, zsh", self.fails(2, "completions", "tcsh"))
        self.assertIn("for which shell", self.fails(2, "completions"))
        self.assertIn("_dsanalyze", self.json_of("completions", "bash")["script"])

    def in_bash(self, line, breaks=' \t\n"\'><=;|&(:'):
        """What bash would put in place of the word under the cursor at the end of the line."""
        script = self.script("bash")
        words = re.findall(r"[:=]+|[^\s:=]+", line) if ":" in breaks else line.split()
        if line.endswith(" "):
            words.append("")
        quoted = " ".join(f"'{word}'" for word in words)
        program = f"source {script}; COMP_WORDBREAKS=$BREAKS\n"
        program += f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE=$LINE; COMP_POINT=${{#COMP_LINE}}\n"
        program += "_dsanalyze; printf '%s\\n' \"${COMPREPLY[@]}\""
        run = subprocess.run(["bash", "--norc", "-c", program], env=dict(self.environment, LINE=line, BREAKS=breaks), cwd=self.folder, capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(run.stderr, "")
        return run.stdout.split("\n")[:-1]

    def test_bash(self):
        self.assertEqual(self.in_bash("dsanalyze whati"), ["whatif"])
        self.assertIn("--cache-size", self.in_bash("dsanalyze profile --cache"))
        self.assertEqual(self.in_bash("dsanalyze profile --step "), ["lockstep", "independent"])
        self.assertEqual(self.in_bash("dsanalyze profile --index a"), ["a file.json"])

    def test_bash_asks_a_program_that_is_called_by_the_home_folder(self):
        self.environment["HOME"] = str(self.folder)
        (self.folder / "dsanalyze").symlink_to(PROGRAM)
        self.assertEqual(self.in_bash("~/dsanalyze whati"), ["whatif"])

    def test_bash_replaces_only_what_stands_behind_a_colon_or_an_equals_sign(self):
        self.assertEqual(self.in_bash("dsanalyze profile --storage emulated:s"), ["ssd"])
        self.assertEqual(self.in_bash("dsanalyze profile --step=l"), ["lockstep"])
        self.assertEqual(self.in_bash("dsanalyze profile --storage emulated:s", breaks=" \t\n"), ["emulated:ssd"])

    def test_fish(self):
        script = self.script("fish")

        def complete(line):
            run = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], env=self.environment, cwd=self.folder, capture_output=True,
                                 text=True, timeout=60, check=False)
            self.assertEqual(run.stderr, "")
            return [line.split("\t")[0] for line in run.stdout.splitlines()]

        self.assertEqual(complete("dsanalyze whati"), ["whatif"])
        self.assertEqual(sorted(complete("dsanalyze profile --step ")), ["independent", "lockstep"])
        self.assertEqual(complete("dsanalyze profile --storage emulated:s"), ["emulated:ssd"])
        self.assertTrue(any("file.json" in found for found in complete("dsanalyze profile --index a")))

    def test_zsh(self):
        script = self.script("zsh")
        (self.folder / ".zshrc").write_text(f"PS1='> '; autoload -U compinit; compinit -u -D; source {script}\n")
        self.assertIn("dsanalyze whatif ", self.typed_in_zsh("dsanalyze whati\t"))
        self.assertIn("dsanalyze profile --storage emulated:ssd", self.typed_in_zsh("dsanalyze profile --storage emulated:s\t"))
        self.assertIn("independent", self.typed_in_zsh("dsanalyze profile --step \t"))

    def typed_in_zsh(self, keys):
        """What the terminal shows after the keys."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-i"], dict(self.environment, ZDOTDIR=str(self.folder), TERM="dumb"))
        shown = self.read_until(terminal, lambda text: text.endswith("> "))
        os.write(terminal, keys.encode())
        last = keys.strip("\t ").split()[-1]
        shown = self.read_until(terminal, lambda text: len(text) > len(keys) and last in text)
        os.kill(child, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(child, 0)
        return shown

    @staticmethod
    def read_until(terminal, is_enough):
        """Reads until it is enough and nothing more comes for half a second, the other side hangs up, or 20 s have passed."""
        text = ""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 0.5)
            if not ready:
                if is_enough(ESCAPES.sub("", text)):
                    break
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece.decode(errors="replace")
        return ESCAPES.sub("", text)


if __name__ == "__main__":
    unittest.main()
