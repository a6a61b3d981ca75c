"""What a person sees who runs the program in a terminal (a real one: pseudo-terminals), and what logs and pipes get instead."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import unittest

from program import PROGRAM, ProgramTest

EMULATED = ["profile", "emulated:imagenet-1k,samples=20000", "--preset", "config-ssd-v100", "--workload", "resnet18", "--scale", "1:1000"]
WHATIF = ["whatif", "--rates", "G=30000,P=20000,C=251952,S=4698.5", "--find", "cache"]
WIPE = "\r\x1b[K"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def bars(text):
    """Every line that was drawn to be wiped again."""
    return [bar for bar in re.findall(r"([^\r\n\x1b]*)" + re.escape(WIPE), text) if bar]


def rows(text):
    """What stands on the screen in the end, from the only controls that the program is to use."""
    shown, column = [""], 0
    for part in re.findall(r"\x1b\[K|\x1b\[[0-9;]*m|.", text, re.DOTALL):
        if part == "\r":
            column = 0
        elif part == "\n":
            shown.append("")
        elif part == "\x1b[K":
            shown[-1] = shown[-1][:column]
        elif not part.startswith("\x1b["):
            assert not CONTROL.match(part), repr(part)
            shown[-1] = shown[-1][:column] + part + shown[-1][column + 1:]
            column += 1
    return shown


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Terminal(ProgramTest):
    def setUp(self):
        super().setUp()
        for name in ("NO_COLOR", "TERM"):
            self.environment.pop(name, None)
        self.environment["TERM"] = "xterm"

    def on_terminal(self, *arguments, columns=80, stdout=None, at_text=None):
        """Exit code and all that the terminal was sent. `at_text(text, terminal)` sees what has come so far and may type."""
        child, terminal = pty.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                resize(2, columns)
                for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
                    signal.signal(number, signal.SIG_DFL)
                if stdout is not None:
                    os.dup2(stdout.fileno(), 1)
                os.execve(PROGRAM, [PROGRAM, *map(str, arguments)], self.environment)
            os._exit(127)
        sent = b""
        with contextlib.suppress(OSError):  # the other side has hung up
            while piece := os.read(terminal, 65536):
                sent += piece
                if at_text:
                    at_text(sent.decode(errors="replace"), terminal)
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sent.decode()

    def test_progress_is_a_line_that_is_rewritten_in_place_within_the_width_and_taken_away(self):
        for columns in (80, 40):
            with self.subTest(columns=columns):
                code, text = self.on_terminal(*EMULATED, "--time-budget", "3s", columns=columns)
                self.assertEqual(code, 0, text)
                self.assertGreater(len(bars(text)), 3)
                self.assertTrue([bar for bar in bars(text) if re.search(r"\d %, [\d,.]+ samples/s, .* left$", bar)], bars(text))
                self.assertLess(max(map(len, bars(text))), columns)
                self.assertFalse([row for row in rows(text) if re.search(r"\d %.* left$", row)])

    def test_a_window_that_becomes_narrower_is_obeyed(self):
        def narrow(text, terminal):
            if bars(text):
                resize(terminal, 30)

        _, text = self.on_terminal(*EMULATED, "--time-budget", "3s", columns=100, at_text=narrow)
        self.assertGreaterEqual(len(bars(text)[0]), 30)
        self.assertLess(len(bars(text)[-1]), 30)

    def test_a_log_gets_plain_lines(self):
        run = self.succeeds(*EMULATED, "--time-budget", "1s")
        self.assertIn("plan: runs:", run.stderr)
        self.assertNotRegex(run.stderr + run.stdout, CONTROL)

    def test_quiet_is_silent_on_a_terminal_too(self):
        with open(self.folder / "result.txt", "w", encoding="utf-8") as result:
            self.assertEqual(self.on_terminal(*EMULATED, "--time-budget", "1s", "--quiet", stdout=result), (0, ""))

    def test_a_terminal_that_knows_nothing_gets_plain_lines(self):
        self.environment["TERM"] = "dumb"
        _, text = self.on_terminal(*EMULATED, "--time-budget", "1s")
        self.assertIn("plan: runs:", text)
        self.assertNotRegex(text.replace("\r\n", "\n"), CONTROL)

    def test_colour_is_for_terminals_unless_it_is_not_wanted(self):
        self.assertRegex(self.on_terminal(*WHATIF)[1], COLOUR)
        self.assertNotRegex(self.succeeds(*WHATIF).stdout, COLOUR)
        self.assertRegex(self.succeeds(*WHATIF, "--color", "always").stdout, COLOUR)
        self.assertNotRegex(self.on_terminal(*WHATIF, "--color", "never")[1], COLOUR)
        self.environment["NO_COLOR"] = "1"
        self.assertNotRegex(self.on_terminal(*WHATIF)[1], COLOUR)
        self.assertRegex(self.on_terminal(*WHATIF, "--color", "always")[1], COLOUR)
        _, text = self.on_terminal(*EMULATED, "--time-budget", "1s")
        self.assertTrue(bars(text))
        self.assertNotRegex(text, COLOUR)
        self.environment["NO_COLOR"] = ""  # as good as not set
        self.assertRegex(self.on_terminal(*WHATIF)[1], COLOUR)

    def test_results_are_laid_out_for_the_width(self):
        for columns in (40, 60, 80):
            code, text = self.on_terminal(*WHATIF, "--quiet", columns=columns)
            self.assertEqual(code, 0)
            self.assertLessEqual(max(map(len, rows(text))), columns)

    def test_help_is_laid_out_for_the_width(self):
        for words in ([], ["--help"], ["profile", "--help"], ["help", "gate"]):
            for columns in (40, 60, 80, 200):
                with self.subTest(words=words, columns=columns):
                    code, text = self.on_terminal(*words, columns=columns)
                    self.assertEqual(code, 0)
                    to_copy = re.compile(r"  (dsanalyze|run=| +--)")
                    self.assertLessEqual(max(len(row) for row in rows(text) if not to_copy.match(row)), min(columns, 80))
                    self.assertEqual("".join(text.split()), "".join(self.succeeds(*words).stdout.split()))

    def test_a_reader_that_goes_away_ends_it_quietly(self):
        for stream, command in (("stdout", ["list", "workloads"]), ("stderr", [*EMULATED, "--time-budget", "5min"])):
            with self.subTest(stream=stream):
                read, write = os.pipe()
                os.close(read)
                other = "stderr" if stream == "stdout" else "stdout"
                with os.fdopen(write, "w") as pipe:
                    run = subprocess.run([PROGRAM, *command], **{stream: pipe, other: subprocess.PIPE}, env=self.environment, timeout=120, check=False)
                self.assertEqual((run.returncode, getattr(run, other)), (-signal.SIGPIPE, b""))

    def test_control_c_leaves_the_terminal_on_a_fresh_line(self):
        typed = []  # once: on a busy machine the terminal shows ^C later than the next bar

        def stop(text, terminal):
            if bars(text) and not typed:
                typed.append(os.write(terminal, b"\x03"))

        code, text = self.on_terminal(*EMULATED, "--time-budget", "5min", at_text=stop)
        self.assertEqual(code, 130, text)
        shown = rows(text)
        self.assertEqual(shown[-1], "")
        self.assertIn("interrupted: stopping in good order; once more ends at once", shown)
        self.assertEqual(shown[-2], "dsanalyze profile: error: interrupted")

    def test_a_second_control_c_leaves_it_there_too(self):
        # What the gate runs does not listen to the first.
        stubborn = 'trap "" INT TERM; echo begun > /dev/tty; while :; do sleep 1; done'
        awaited = ["begun", "once more ends at once"]

        def stop(text, terminal):
            if awaited and awaited[0] in text:
                del awaited[0]
                os.write(terminal, b"\x03")

        code, text = self.on_terminal("gate", "--baseline-command", stubborn, "--current-command", stubborn, at_text=stop)
        self.assertEqual(code, 130, text)
        self.assertEqual(rows(text)[-1], "")


if __name__ == "__main__":
    unittest.main()
