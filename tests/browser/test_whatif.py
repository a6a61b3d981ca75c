"""The sliders of the page answer as `dsanalyze whatif` does, and say so."""

import json
import math
import os
import random
import re
import subprocess
import unittest

import pages
import records

SEED = int(os.environ.get("DSANALYZE_TEST_SEED", "20261120"))
MOST_DIFFERENCE = 1e-9
OPTIONS = {"cache_fraction": ("--cache-size", lambda value: f"{value * 100:.12g}%"), "cores": ("--cores", lambda value: f"{value:.12g}"),
           "accelerator_speed": ("--accelerator-speed", lambda value: f"{value:.12g}x"), "accelerators": ("--accelerators", lambda value: f"{value:.12g}"),
           "storage_factor": ("--storage", lambda value: f"{value:.12g}x")}
RATES = ("G", "P", "F", "C", "S", "samples_per_s", "epoch_seconds", "speedup")

COMPUTE = """
  const [model, positions] = arguments;
  return positions.map((position) => DsanalyzeWhatIf.compute(model, position));
"""
# Through the page's own sliders, as a hand moves them.
MOVE = """
  const [positions] = arguments;
  const section = document.querySelector('#whatif [data-live]');
  const model = JSON.parse(document.getElementById('record').textContent).live[0];
  const values = Object.fromEntries(model.sliders.map((slider) => [slider.name, slider.values]));
  const answers = [];
  const listen = (event) => { answers[answers.length - 1] = event.detail; };
  section.addEventListener('whatif', listen);
  for (const position of positions) {
    answers.push(null);
    section.querySelector('button.whatif-reset').click();
    for (const [name, value] of Object.entries(position)) {
      const input = section.querySelector(`input[data-slider="${name}"]`);
      input.value = String(values[name].indexOf(value));
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }
    Object.assign(answers[answers.length - 1], { command: section.querySelector('.whatif-command').textContent,
                                                 said: section.querySelector('.whatif-result').textContent });
  }
  section.removeEventListener('whatif', listen);
  return answers;
"""


def key(change):
    return tuple(sorted((name, float(f"{value:.10g}")) for name, value in change.items() if name in OPTIONS and value is not None))


def difference(expected, found, least=0.0):
    """Relative; values below `least` (shares of an epoch next to nothing) are compared as if they were that large."""
    if expected is None or found is None:
        return 0.0 if expected is found else math.inf
    return abs(expected - found) / max(abs(expected), abs(found), least, 1e-300)


def worst_difference(expected, found):
    """(difference, field) of the field that differs most."""
    pairs = [(difference(expected[name], found[name]), name) for name in RATES]
    pairs += [(difference(expected["ci95_samples_per_s"][end], found["ci95_samples_per_s"][end]), "ci95 " + end) for end in ("low", "high")]
    if expected["stalls"] is None or found["stalls"] is None:
        pairs.append((0.0 if expected["stalls"] is found["stalls"] else math.inf, "stalls"))
    else:
        pairs += [(difference(expected["stalls"][name], found["stalls"][name], 1e-6), name) for name in ("compute", "prep", "fetch")]
    return max(pairs)


class WhatIf(pages.PageTest):
    """Each kind of profile at random positions of all its sliders."""

    def lists(self, model, chance):
        """A few values of each slider that the page has."""
        return {slider["name"]: sorted(chance.sample(slider["values"], min(3, len(slider["values"])))) for slider in model["sliders"] if slider["values"]}

    def answers(self, path, lists):
        arguments = [part for name, values in lists.items() for part in (OPTIONS[name][0], ",".join(map(OPTIONS[name][1], values)))]
        return json.loads(self.program("whatif", path, *arguments, "--all", "--json").stdout)["answers"]

    def same(self, expected, found, where):
        worst, field = worst_difference(expected, found)
        self.assertLessEqual(worst, MOST_DIFFERENCE, f"{field} {where}")
        self.assertEqual(expected["bottleneck"], found["bottleneck"], where)
        self.assertEqual(expected["too_close"], found["too_close"], where)
        self.assertAlmostEqual(expected["extrapolation"], found["extrapolation"], delta=1e-9, msg=where)
        return worst

    def test_the_page_answers_as_the_program_does(self):
        chance = random.Random(SEED)
        computed = moved = 0
        worst = 0.0
        for name in records.equation_kinds():
            path, page = self.record(name), self.page_of(name)
            self.browser.open(page)
            model = self.browser.run("return JSON.parse(document.getElementById('record').textContent).live[0];")
            for _ in range(2):
                expected = self.answers(path, self.lists(model, chance))
                positions = [dict(key(answer["change"])) for answer in expected]
                for answer, found in zip(expected, self.browser.run(COMPUTE, model, positions)):
                    worst = max(worst, self.same(answer, found, f"of {name} at {answer['change']}"))
                computed += len(positions)
                some = chance.sample(range(len(positions)), min(25, len(positions)))
                for at, found in zip(some, self.browser.run(MOVE, [positions[at] for at in some])):
                    worst = max(worst, self.same(expected[at], found["result"], f"of {name}, moved to {expected[at]['change']}"))
                    self.assertEqual(key(found["position"]), key(expected[at]["change"]))
                moved += len(some)
            self.assertEqual(self.browser.messages(), [])
        print(f"seed {SEED}: {computed} positions computed, {moved} moved to by the sliders; largest relative difference {worst:.2g}", flush=True)
        self.assertGreaterEqual(moved, 200)

    def test_the_command_line_that_the_page_shows_gives_the_same_answer(self):
        chance = random.Random(SEED + 1)
        for name in ("minio", "no-accelerator", "page-model-random", "hostile"):
            path, page = self.record(name), self.page_of(name)
            self.browser.open(page)
            model = self.browser.run("return JSON.parse(document.getElementById('record').textContent).live[0];")
            expected = self.answers(path, {slider: values[:1] for slider, values in self.lists(model, chance).items()})
            positions = [dict(key(answer["change"])) for answer in expected]
            at = max(range(len(positions)), key=lambda i: len(positions[i]))
            shown = self.browser.run(MOVE, [positions[at]])[0]
            self.assertTrue(shown["command"].startswith("dsanalyze whatif "), shown["command"])
            script = 'dsanalyze() { "$PROGRAM" "$@"; }\n' + shown["command"] + " --json"
            run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120,
                                 env={**self.environment, "PROGRAM": pages.PROGRAM})
            self.assertEqual(run.returncode, 0, run.stderr)
            answers = {key(answer["change"]): answer for answer in json.loads(run.stdout)["answers"]}
            self.same(answers[key(positions[at])], shown["result"], shown["command"])
            self.assertTrue(shown["said"].startswith(f"{shown['result']['samples_per_s']:,.0f} samples/s"), shown["said"])

    def test_at_first_and_after_the_reset_the_page_stands_as_profiled(self):
        path, page = self.record("minio"), self.page_of("minio")
        self.browser.open(page)
        measured = self.answers(path, {})[0]
        at_first = self.browser.run("return document.querySelector('.whatif-result').textContent;")
        self.assertIn("as fast as by the profile", at_first)
        outputs = "return [...document.querySelectorAll('#whatif output')].map((output) => output.textContent);"
        before = self.browser.run(outputs)
        self.assertTrue(all("as profiled" in text for text in before), before)
        self.browser.run(MOVE, [{"cache_fraction": 0.9, "cores": 12}])
        self.assertEqual([("as profiled" in text) for text in self.browser.run(outputs)].count(False), 2)
        self.browser.run("document.querySelector('button.whatif-reset').click();")
        self.assertEqual(self.browser.run(outputs), before)
        self.assertEqual(self.browser.run("return document.querySelector('.whatif-result').textContent;"), at_first)
        self.same(measured, self.browser.run(MOVE, [{}])[0]["result"], "as profiled")

    def test_a_quantity_without_a_base_has_no_slider_and_the_page_says_why(self):
        for name, absent in (("no-accelerator", ["Speed of an accelerator", "Number of accelerators"]), ("no-cores", ["CPU cores for prep"])):
            page = self.page_of(name)
            self.browser.open(page)
            said = self.browser.run("return [...document.querySelectorAll('.whatif-absent')].map((line) => line.textContent);")
            self.assertEqual([re.match(r"[^:]*", line).group() for line in said], absent)
            self.assertTrue(all(len(line) > 60 for line in said), said)
            self.assertEqual(len(self.browser.run("return [...document.querySelectorAll('#whatif input[type=range]')].map(String);")), 5 - len(absent))

    def test_what_is_said_aloud_waits_until_the_slider_rests(self):
        page = self.page_of("minio")
        self.browser.open(page)
        self.assertEqual(self.browser.run("return document.querySelector('.whatif-status').textContent;"), "")
        self.browser.run(MOVE, [{"cache_fraction": 0.9}])
        self.browser.wait_for("const [status, result] = ['.whatif-status', '.whatif-result'].map((name) => document.querySelector(name).textContent);"
                              "return status === result;")


if __name__ == "__main__":
    unittest.main()
