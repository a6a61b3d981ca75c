"""dsanalyze gate: results compared, alternating commands, the store of baselines, outputs for CI, hostile input."""

import copy
import datetime
import json
import os
import random
import shlex
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree

from program import PROGRAM, ProgramTest

BEGIN = datetime.datetime(2026, 11, 20, 21, 0, 0)



def signals_as_usual():
    """Under nohup, or in the background of a script, a program inherits that it is to ignore some."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Gate(ProgramTest):
    template = None

    def profile(self):
        """One real, emulated profile: the others are made of it."""
        if Gate.template is None:
            Gate.template = self.json_of("profile", "emulated:imagenet-1k,samples=400", "--scale", "1:1000", "--storage", "emulated:530MB/s", "--prep",
                                         "emulated:500", "--cores", 2, "--accelerator", "emulated:4000", "--time-budget", "1s", "--quiet")
            self.complete(Gate.template)
        return copy.deepcopy(Gate.template)

    @staticmethod
    def complete(record):
        """Whatever a busy machine had no time to measure: the figures are replaced anyway."""
        record["trusted"] = True
        rate = {"samples_per_s": 1, "bytes_per_s": 1, "windows": 3, "void_windows": 0, "method": "made up", "ci95_samples_per_s": {"low": 1, "high": 1}}
        for key in ("P", "S"):
            record["rates"][key] = dict(rate)
        run = next(run for run in record["runs"])
        record["runs"] = [dict(run, name=name, ci95_samples_per_s={"low": 1, "high": 1}) for name in ("cached", "full")]
        record["stalls"] = {name: {"seconds_per_epoch": 1, "fraction": 0.3, "ci95_fraction": {"low": 0.2, "high": 0.4}} for name in ("compute", "prep", "fetch")}

    def results(self, name, count, factor=1.0, scatter=0.01, days=0, change=None):
        """Files of profiles whose rates and runs are `factor` of a plain one's, a minute apart."""
        drawn = random.Random(f"{name}{count}{days}")
        files = []
        for i in range(count):
            record = self.profile()
            began = BEGIN + datetime.timedelta(days=days, minutes=i)
            record["started_utc"] = began.strftime("%Y-%m-%dT%H:%M:%SZ")
            for key, base in (("P", 1000), ("S", 4600)):
                value = base * (factor if key == "P" else 1) * (1 + drawn.gauss(0, scatter))
                record["rates"][key].update(samples_per_s=value, ci95_samples_per_s={"low": value * 0.99, "high": value * 1.01})
            for run in record["runs"]:
                if run["name"] in ("cached", "full"):
                    run["samples_per_s"] = 980 * factor * (1 + drawn.gauss(0, scatter))
            record["stalls"]["prep"]["fraction"] = 0.3 + drawn.gauss(0, scatter / 4)
            record["stalls"]["fetch"]["fraction"] = 0.05 + drawn.gauss(0, scatter / 4)
            if change:
                change(record)
            files.append(self.folder / f"{name}-{i}.json")
            files[-1].write_text(json.dumps(record))
        return files

    def gate(self, exit_code, *arguments):
        run = self.run_program("gate", *arguments)
        self.assertEqual(run.returncode, exit_code, run.stdout + run.stderr)
        return run

    def baselines(self, *options, **values):
        store = self.folder / "store"
        self.succeeds("gate", "accept", *self.results("base", 6, **values), "--baseline", store, *options)
        return store


class Results(Gate):
    def test_a_slow_down_is_a_regression_with_exit_code_3_in_every_output(self):
        store = self.baselines()
        slow = self.results("slow", 6, factor=0.85)
        outputs = {name: self.folder / name for name in ("gate.xml", "gate.md", "quality.json", "gate.json")}
        run = self.gate(3, "--baseline", store, *slow, "--junit", outputs["gate.xml"], "--markdown", outputs["gate.md"], "-o", outputs["gate.json"],
                        "--annotations", f"gitlab:{outputs['quality.json']}")
        self.assertTrue(run.stdout.startswith("regression: P, cached, full got worse"), run.stdout)
        suite = xml.etree.ElementTree.parse(outputs["gate.xml"]).getroot().find("testsuite")
        self.assertEqual(suite.get("failures"), "3")
        self.assertEqual({case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}, {"P", "cached", "full"})
        self.assertIn("| P |", outputs["gate.md"].read_text())
        self.assertEqual(len([issue for issue in json.loads(outputs["quality.json"].read_text()) if issue["severity"] == "major"]), 3)
        record = json.loads(outputs["gate.json"].read_text())
        self.assertEqual((record["schema"], record["verdict"], record["exit_code"]), ("dsanalyze.gate/1", "regression", 3))
        lines = [len(line) for line in run.stdout.splitlines()]
        self.assertLessEqual(max(lines), 80)

    def test_equal_results_pass(self):
        run = self.gate(0, "--baseline", self.baselines(scatter=0.004), *self.results("same", 6, scatter=0.004))
        self.assertTrue(run.stdout.startswith("no change"), run.stdout)

    def test_one_run_a_side_is_undecided_and_json_says_how_many_more(self):
        one, other = self.results("one", 1), self.results("other", 1)
        record = json.loads(self.gate(4, "--baseline", one[0], other[0], "--json").stdout)
        self.assertEqual(record["verdict"], "cannot tell")
        self.assertTrue(all(metric["more"] > 0 for metric in record["metrics"]))

    def test_a_first_run_explains_itself(self):
        files = self.results("first", 2)
        for place in (self.folder / "no store", self.folder):
            if place.exists():
                place = self.folder / "empty"
                place.mkdir()
            run = self.gate(4, "--baseline", place, *files, "--junit", self.folder / "gate.xml")
            self.assertIn("dsanalyze gate accept", " ".join(run.stdout.split()))
            self.assertIn("baseline no runs yet in", " ".join(run.stdout.split()))
            xml.etree.ElementTree.parse(self.folder / "gate.xml")

    def test_another_machine_is_refused_with_the_fields_and_passes_when_they_are_ignored(self):
        store = self.baselines(scatter=0.004)

        def elsewhere(record):
            record["host"]["cpu_model"] = "another CPU"
            record["settings"]["batch_size"] = 7

        files = self.results("elsewhere", 6, scatter=0.004, change=elsewhere)
        message = self.fails(2, "gate", "--baseline", store, *files)
        self.assertIn("host.cpu_model", message)
        self.assertIn("settings.batch_size", message)
        run = self.gate(0, "--baseline", store, *files, "--ignore", "host.cpu_model,settings.batch_size")
        self.assertIn("another CPU", run.stdout)
        self.assertIn('did you mean "host.cpu_model"', self.fails(2, "gate", "--baseline", store, *files, "--ignore", "host.cpu_modl"))

    def test_normalizing_needs_calibrations_and_shows_them(self):
        emulated = self.results("emulated", 1)[0]
        self.assertIn("prep is not real", self.fails(2, "gate", "--baseline", emulated, self.results("other", 1)[0], "--normalize"))

        def on_a_cpu_of_speed(speed):
            def change(record):
                record["settings"]["prep"] = "real"
                record["host"].update(cpu_model=f"CPU {speed}", calibration_passes_per_s=4000 * speed)

            return change

        old = self.results("old", 6, scatter=0.002, change=on_a_cpu_of_speed(1))
        new = self.results("new", 6, factor=2, scatter=0.002, change=on_a_cpu_of_speed(2))
        arguments = [word for file in old for word in ("--baseline", file)] + new
        self.assertIn("host.cpu_model", self.fails(2, "gate", *arguments))
        run = self.gate(0, *arguments, "--normalize", "--metrics", "P,S", "-o", self.folder / "gate.json")
        self.assertIn("calibration 8,000 passes/s", " ".join(run.stdout.split()))
        self.assertTrue(json.loads((self.folder / "gate.json").read_text())["normalized"])

    def test_a_baseline_of_another_day_is_no_ground_for_a_verdict(self):
        run = self.gate(4, "--baseline", self.baselines(), *self.results("later", 6, factor=0.8, days=3))
        self.assertIn("one session", " ".join(run.stdout.split()))

    def test_annotations_for_github_are_workflow_commands(self):
        run = self.gate(3, "--baseline", self.baselines(), *self.results("slow", 6, factor=0.8), "--annotations", "github")
        commands = [line for line in run.stdout.splitlines() if line.startswith("::")]
        self.assertTrue(commands[0].startswith("::error title="))
        self.assertLessEqual(len(commands), 10)
        self.assertIn("-o FILE", self.gate(2, "--baseline", "x.json", "y.json", "--annotations", "github", "--json").stderr)

    def test_hostile_names_and_records_break_nothing(self):
        strange = self.folder / "a\x1b[2J\n|<b>&'\".json"
        self.results("odd", 1)[0].rename(strange)
        base = self.results("base", 1)
        outputs = self.folder / "g.xml", self.folder / "g.md", self.folder / "g.json"
        run = self.gate(4, "--baseline", base[0], strange, "--junit", outputs[0], "--markdown", outputs[1], "-o", outputs[2], "--annotations", "github")
        self.assertNotIn("\x1b", run.stdout)
        xml.etree.ElementTree.parse(outputs[0])
        json.loads(outputs[2].read_text())
        self.assertNotIn("<b>", outputs[1].read_text())

    def test_what_is_no_profile_is_an_error_that_names_the_file(self):
        good = self.results("good", 2)
        text = good[0].read_text()
        bad = {
            "torn": text[: len(text) // 2],
            "other": '{"schema": "dsanalyze.whatif/1"}',
            "empty": "",
            "list": "[]",
            "nan": text.replace('"samples_per_s"', '"samples_per_s": NaN, "x"', 1),
            "zero": json.dumps({**json.loads(text), "rates": {**json.loads(text)["rates"], "P": {**json.loads(text)["rates"]["P"], "samples_per_s": 0}}}),
        }
        for name, content in bad.items():
            with self.subTest(name):
                file = self.folder / f"{name}.json"
                file.write_text(content)
                self.assertIn(file.name, self.fails(2, "gate", "--baseline", good[1], file))
        self.assertIn("nowhere.json", self.fails(2, "gate", "--baseline", "nowhere.json", good[0]))
        self.assertIn("both sides", self.fails(2, "gate", "--baseline", good[0], good[0]))

    def test_outputs_are_checked_before_anything_is_done(self):
        files = self.results("some", 2)
        same = self.folder / "out"
        self.assertIn("file of its own", self.fails(2, "gate", "--baseline", files[0], files[1], "--junit", same, "--markdown", same))
        self.assertIn("nowhere", self.fails(1, "gate", "--baseline", files[0], files[1], "--junit", self.folder / "nowhere" / "x.xml"))
        self.assertFalse(same.exists())

    def test_no_output_replaces_an_input_or_becomes_a_baseline(self):
        store = self.baselines()
        files = self.results("some", 2)
        (self.folder / "link.json").symlink_to(files[0])
        held = sorted(os.listdir(store))
        texts = [file.read_bytes() for file in files]
        for output in (("--junit", files[0]), ("-o", self.folder / "link.json"), ("--markdown", store / held[0]), ("-o", store / "new.json"),
                       ("--annotations", f"gitlab:{files[1]}")):
            with self.subTest(output):
                self.assertIn("which this command reads", self.fails(2, "gate", "--baseline", store, *files, *output))
        self.assertIn("which this command reads", self.fails(2, "gate", "accept", files[0], "--baseline", store, "-o", files[0]))
        self.assertIn("which this command reads", self.fails(2, "gate", "accept", files[0], "--baseline", store, "-o", store / "new.json"))
        self.assertEqual([file.read_bytes() for file in files], texts)
        self.assertEqual(sorted(os.listdir(store)), held)

    def test_an_output_that_cannot_be_written_costs_no_comparison(self):
        store = self.baselines(scatter=0.004)
        outputs = ("--junit", "/dev/full", "--markdown", self.folder / "gate.md", "-o", "/dev/full")
        for exit_code, factor in ((3, 0.8), (1, 1)):
            with self.subTest(factor):
                files = self.results(f"by {factor}", 6, factor=factor, scatter=0.004)
                run = self.gate(exit_code, "--baseline", store, *files, *outputs)
                self.assertIn("regression: P" if exit_code == 3 else "no change", run.stdout)
                self.assertEqual(run.stderr.count("No space left"), 2)
                self.assertIn("| P |", (self.folder / "gate.md").read_text())
                self.assertEqual(json.loads(self.gate(exit_code, "--baseline", store, *files, *outputs, "--json").stdout)["schema"], "dsanalyze.gate/1")

    def test_wrong_options_teach(self):
        for arguments, part in (([], "--baseline-command"), (["--baseline", "x"], "results to judge"), (["--metrics", "G", "--baseline", "a", "b"], "never gated"),
                                (["--min-effect", "0", "--baseline", "a", "b"], "--min-effect"), (["--baseline-command", "true"], "--current-command"),
                                (["--pairs", "3", "--baseline", "a", "b"], "--pairs"), (["accept", "x.json"], "--baseline DIR"),
                                (["--baseline", "a", "b", "--current-command", "true", "--baseline-command", "true"], "both given"),
                                (["--annotations", "bitbucket", "--baseline", "a", "b"], "github")):
            with self.subTest(arguments):
                self.assertIn(part, self.fails(2, "gate", *arguments))


class Store(Gate):
    def test_accepting_twice_changes_nothing_and_untrusted_results_are_refused(self):
        store = self.baselines()
        names = sorted(os.listdir(store))
        self.assertEqual(len(names), 6)
        self.assertTrue(all(name.startswith("20261120T21") for name in names), names)
        self.assertIn("already there", self.succeeds("gate", "accept", self.folder / "base-0.json", "--baseline", store).stdout)
        self.assertEqual(sorted(os.listdir(store)), names)
        bad = self.results("bad", 1, change=lambda record: record.update(trusted=False))[0]
        self.assertIn("not trusted", self.fails(2, "gate", "accept", bad, "--baseline", store))
        self.succeeds("gate", "accept", bad, "--baseline", store, "--allow-untrusted")
        self.assertEqual(len(os.listdir(store)), 7)

    def test_another_machine_needs_a_new_baseline(self):
        store = self.baselines()
        other = self.results("other", 1, change=lambda record: record["host"].update(cpu_model="another CPU"))[0]
        self.assertIn("--replace", self.fails(2, "gate", "accept", other, "--baseline", store))
        self.succeeds("gate", "accept", other, "--baseline", store, "--replace")
        self.assertEqual(len(os.listdir(store)), 1)


class ByTurns(Gate):
    """The commands print results that were made before, one after another."""

    def printing(self, name, files):
        """A command that prints the next of the files each time."""
        counter = self.folder / f"{name}.count"
        counter.write_text("0")
        script = self.folder / f"{name}.sh"
        script.write_text(f'n=$(cat {shlex.quote(str(counter))})\necho $((n + 1)) > {shlex.quote(str(counter))}\nset -- {" ".join(shlex.quote(str(f)) for f in files)}\n'
                          'shift $((n % $#))\ncat "$1"\n')
        return f"sh {shlex.quote(str(script))}"

    def test_a_slow_down_ends_the_comparison_at_the_first_look(self):
        old, new = self.printing("old", self.results("a", 25)), self.printing("new", self.results("b", 25, factor=0.8))
        record = json.loads(self.gate(3, "--baseline-command", old, "--current-command", new, "--json").stdout)
        self.assertEqual((record["unit"], record["baseline"]["runs"]), ("pair", 8))
        self.assertIn("P", [metric["name"] for metric in record["metrics"] if metric["verdict"] == "regression"])

    def test_equal_commands_pass(self):
        old, new = self.printing("old", self.results("a", 25, scatter=0.004)), self.printing("new", self.results("b", 25, scatter=0.004))
        self.gate(0, "--baseline-command", old, "--current-command", new)

    def test_a_command_that_fails_or_prints_rubbish_is_named_with_its_words(self):
        good = self.printing("good", self.results("a", 2))
        for command, part in (("echo broken disk >&2; exit 7", "broken disk"), ("echo hello", "hello"), ("true", "printed nothing"), ("kill -9 $$", "signal 9")):
            with self.subTest(command):
                self.assertIn(part, self.fails(1, "gate", "--baseline-command", good, "--current-command", command))

    def test_a_command_that_hangs_is_ended_with_what_it_started(self):
        mark = self.folder / "pid"
        message = self.fails(1, "gate", "--run-timeout", "0.5s", "--current-command", "true", "--baseline-command",
                             f"sleep 1000 & echo $! > {shlex.quote(str(mark))}; wait")
        self.assertIn("--run-timeout", message)
        deadline = time.monotonic() + 30
        while self.runs(int(mark.read_text())) and time.monotonic() < deadline:
            os.sched_yield()
        self.assertFalse(self.runs(int(mark.read_text())))

    def started(self, command):
        """A gate whose first command has said in the file `pid` what it started."""
        mark = self.folder / "pid"
        gate = subprocess.Popen([PROGRAM, "gate", "--baseline-command", command.replace("MARK", shlex.quote(str(mark))), "--current-command", "true"],
                                stderr=subprocess.PIPE, text=True, env=self.environment, preexec_fn=signals_as_usual)
        self.addCleanup(gate.wait, 30)
        self.addCleanup(gate.kill)
        self.addCleanup(gate.stderr.close)
        deadline = time.monotonic() + 30
        while not mark.exists() and gate.poll() is None and time.monotonic() < deadline:
            os.sched_yield()
        self.assertTrue(mark.exists(), "the gate ended, or its command never began")
        return gate, int(mark.read_text())

    def ends(self, process):
        deadline = time.monotonic() + 30
        while self.runs(process) and time.monotonic() < deadline:
            os.sched_yield()
        self.assertFalse(self.runs(process))

    def test_a_second_interrupt_ends_what_a_command_started_too(self):
        gate, process = self.started("trap '' TERM; sleep 1000 & echo $! > MARK.new; mv MARK.new MARK; wait")
        gate.send_signal(signal.SIGINT)
        for line in gate.stderr:
            if "once more" in line:
                break
        else:
            self.fail("the gate ended without a word of the interrupt")
        gate.send_signal(signal.SIGINT)
        self.assertEqual(gate.wait(30), 130)
        self.ends(process)

    def test_a_terminal_that_goes_away_ends_what_a_command_started_too(self):
        for number in (signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number.name):
                gate, process = self.started("sleep 1000 & echo $! > MARK.new; mv MARK.new MARK; wait")
                gate.send_signal(number)
                self.assertEqual(gate.wait(30), 130)
                self.ends(process)
                (self.folder / "pid").unlink()

    @staticmethod
    def runs(process):
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8") as stream:
                return stream.read().rsplit(") ", 1)[1][0] not in "ZX"
        except OSError:
            return False

    def test_the_program_itself_by_turns(self):
        command = (f"{shlex.quote(PROGRAM)} profile emulated:imagenet-1k,samples=400 --scale 1:1000 --storage emulated:530MB/s --prep emulated:500 --cores 2 "
                   "--time-budget 1s --runs prep --quiet --json -o /dev/null")
        run = self.run_program("gate", "--baseline-command", command, "--current-command", command, "--pairs", 2, "--warm-ups", 0, "--metrics", "P", "--json",
                               "--allow-untrusted")
        self.assertIn(run.returncode, (0, 3, 4), run.stderr)
        self.assertEqual(json.loads(run.stdout)["metrics"][0]["name"], "P")


class SlowedPrep(Gate):
    """The seam by which tests of the gate slow real prep down."""

    def test_slowed_prep_is_found_in_the_record_and_does_not_hinder_a_comparison(self):
        data = self.photographs(20)
        files = []
        for share in ("", "5%"):
            self.environment["DSANALYZE_TEST_SLOW_PREP"] = share
            files.append(self.folder / f"slowed{share}.json")
            self.succeeds("profile", data, "--runs", "prep", "--time-budget", "1s", "--quiet", "-o", files[-1])
        plain, slowed = (json.loads(file.read_text()) for file in files)
        found = [[finding["code"] for finding in record["findings"]] for record in (plain, slowed)]
        self.assertNotIn("prep-slowed", found[0])
        self.assertIn("prep-slowed", found[1])
        for record in (plain, slowed):
            self.complete(record)
        files[0].write_text(json.dumps(plain))
        files[1].write_text(json.dumps(slowed))
        self.gate(4, "--baseline", files[0], files[1], "--metrics", "P")

    def test_a_share_that_is_none_is_an_error(self):
        for text in ("fast", "-10%", "0.05", "200%", "nan"):
            with self.subTest(text):
                self.environment["DSANALYZE_TEST_SLOW_PREP"] = text
                self.assertIn("DSANALYZE_TEST_SLOW_PREP", self.fails(2, "profile", self.folder, "--dry-run"))

    def test_emulated_prep_has_no_time_to_burn(self):
        self.environment["DSANALYZE_TEST_SLOW_PREP"] = "5%"
        self.assertIn("--prep", self.fails(2, "profile", "emulated:imagenet-1k,samples=400", "--prep", "emulated:500", "--storage", "emulated:530MB/s", "--dry-run"))


if __name__ == "__main__":
    unittest.main()
