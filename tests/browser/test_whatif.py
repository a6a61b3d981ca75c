"""The sliders of the page show what `dsanalyze whatif` answers to one change, and say so."""

import json
import math
import re
import subprocess
import unittest

import pages
import records

MOST_DIFFERENCE = 1e-6
OPTIONS = {"workers": ("--workers", lambda value: f"{value:.12g}"), "cores": ("--cores", lambda value: f"{value:.12g}"),
           "cache_fraction": ("--cache-size", lambda value: f"{value * 100:.12g}%"), "accelerator_speed": ("--accelerator-speed", lambda value: f"{value:.12g}x"),
           "storage_factor": ("--storage", lambda value: f"{value:.12g}x")}

# Through the page's own sliders, as a hand moves them.
WALK = """
  const section = document.querySelector('#whatif [data-live]');
  const walked = [];
  let heard = null;
  const listen = (event) => { heard = event.detail; };
  section.addEventListener('whatif', listen);
  for (const input of section.querySelectorAll('input[type=range]'))
    for (let at = 0; at <= Number(input.max); at += 1) {
      input.value = String(at);
      input.dispatchEvent(new Event('input', { bubbles: true }));
      walked.push({ ...heard, slider: input.dataset.slider, command: section.querySelector('.whatif-command').textContent,
                    said: section.querySelector('.whatif-result').textContent });
    }
  section.removeEventListener('whatif', listen);
  return walked;
"""
OUTPUTS = "return [...document.querySelectorAll('#whatif output')].map((output) => output.textContent);"
SAID = "return document.querySelector('.whatif-result').textContent;"


def numbers(answer):
    """Each by its name, of the program's answers and of the page's."""
    found = {name: answer[name] for name in ("G", "P", "F", "samples_per_s", "epoch_seconds", "speedup", "extrapolation")}
    return {**found, **answer["ci95_samples_per_s"], **(answer["stalls"] or {})}


class WhatIf(pages.PageTest):
    def open(self, name):
        self.browser.open(self.page_of(name))
        return self.browser.run(WALK)

    def answers(self, path, *arguments):
        return json.loads(self.program("whatif", path, *arguments, "--json").stdout)["answers"]

    def same(self, expected, found, where):
        expected_numbers, found_numbers = numbers(expected), numbers(found)
        self.assertEqual(expected_numbers.keys(), found_numbers.keys(), where)
        for name, value in expected_numbers.items():
            same = value is found_numbers[name] or math.isclose(value, found_numbers[name], rel_tol=MOST_DIFFERENCE, abs_tol=MOST_DIFFERENCE)
            self.assertTrue(same, f"{name} {where}: {found_numbers[name]} instead of {value}")
        for name in ("bottleneck", "too_close"):
            self.assertEqual(expected[name], found[name], where)
        self.assertEqual(expected.get("bottleneck_detail", ""), found["bottleneck_detail"], where)

    def test_each_point_of_each_slider_is_what_the_program_answers(self):
        for kind in records.sliding_kinds():
            walked = self.open(kind)
            for slider in {one["slider"] for one in walked}:
                steps = [one for one in walked if one["slider"] == slider]
                self.assertLessEqual(len(steps), 12)
                option, text = OPTIONS[slider]
                values = [text(one["position"][slider]) for one in steps if one["position"]]
                self.assertEqual(len(values), len(steps) - 1)  # one of them is the configuration as profiled
                answers = {round(answer["change"].get(slider, -1), 6): answer for answer in self.answers(self.record(kind), option, ",".join(values))}
                for one in steps:
                    self.same(answers[round(one["position"].get(slider, -1), 6)], one["result"], f"of {kind}, moved to {one['position']}")
            self.assertEqual(self.browser.messages(), [])

    def test_the_command_line_that_the_page_shows_gives_the_same_answer(self):
        for kind in ("minio", "no-accelerator", "hostile", "launched"):
            shown = [one for one in self.open(kind) if one["position"]][-1]
            self.assertTrue(shown["command"].startswith("dsanalyze whatif "), shown["command"])
            script = 'dsanalyze() { "$PROGRAM" "$@"; }\n' + shown["command"] + " --json"
            run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120,
                                 env={**self.environment, "PROGRAM": pages.PROGRAM})
            self.assertEqual(run.returncode, 0, run.stderr)
            self.same(json.loads(run.stdout)["answers"][1], shown["result"], shown["command"])
            self.assertTrue(shown["said"].startswith(f"{shown['result']['samples_per_s']:,.0f} samples/s"), shown["said"])

    def test_one_slider_at_a_time_is_moved_and_the_reset_moves_it_back(self):
        self.browser.open(self.page_of("minio"))
        before, at_first = self.browser.run(OUTPUTS), self.browser.run(SAID)
        self.assertIn("as without a change", at_first)
        self.assertTrue(all("as profiled" in text for text in before), before)
        self.browser.run(WALK)
        self.assertEqual([("as profiled" in text) for text in self.browser.run(OUTPUTS)].count(False), 1)
        self.browser.run("document.querySelector('button.whatif-reset').click();")
        self.assertEqual(self.browser.run(OUTPUTS), before)
        self.assertEqual(self.browser.run(SAID), at_first)

    def test_a_quantity_without_a_base_has_no_slider_and_the_page_says_why(self):
        for kind, absent in (("no-accelerator", ["Speed of an accelerator"]), ("no-cores", ["CPU cores"]),
                             ("launched-without-storage", ["Cache, of the dataset", "Storage speed"])):
            self.browser.open(self.page_of(kind))
            said = self.browser.run("return [...document.querySelectorAll('.whatif-absent')].map((line) => line.textContent);")
            self.assertEqual([re.match(r"[^:]*", line).group() for line in said], absent)
            self.assertTrue(all(len(line) > 60 for line in said), said)

    def test_what_is_said_aloud_waits_until_the_slider_rests(self):
        self.browser.open(self.page_of("minio"))
        self.assertEqual(self.browser.run("return document.querySelector('.whatif-status').textContent;"), "")
        self.browser.run(WALK)
        self.browser.wait_for("const [status, result] = ['.whatif-status', '.whatif-result'].map((name) => document.querySelector(name).textContent);"
                              "return status === result;")


if __name__ == "__main__":
    unittest.main()
