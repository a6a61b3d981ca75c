"""What commands print under --json that is no result of a measurement follows the published schemas, which name every field of it."""

import copy
import json
import pathlib
import unittest

from program import ProgramTest

try:
    import jsonschema
except ImportError:
    jsonschema = None  # Debian: python3-jsonschema

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "reports" / "schemas"
EMULATED = ["emulated:imagenet-1k,samples=400", "--scale", "1:1000", "--storage", "emulated:530MB/s", "--prep", "emulated:500", "--cores", 2, "--accelerator",
            "emulated:4000"]


def closed(schema):
    """The schema without the freedom to have further fields."""
    if isinstance(schema, list):
        return [closed(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {**{key: closed(value) for key, value in schema.items()}, **({"additionalProperties": False} if "properties" in schema else {})}


@unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
class Schemas(ProgramTest):
    def follows_its_schema(self, document):
        name, _, version = document["schema"].removeprefix("dsanalyze.").partition("/")
        schema = json.loads((SCHEMAS / f"{name}-{version}.json").read_text())
        kind = jsonschema.validators.validator_for(schema)
        kind.check_schema(schema)
        self.assertEqual([error.message for error in kind(closed(schema)).iter_errors(document)], [])
        for field in document:
            broken = copy.deepcopy(document)
            del broken[field]
            self.assertFalse(kind(schema).is_valid(broken), f"{name} without {field}")
        return name

    def test_list(self):
        for what in ("workloads", "servers", "datasets", "storage", "prices", "scenarios"):
            with self.subTest(what=what):
                self.assertEqual(self.follows_its_schema(self.json_of("list", what)), "list")

    def test_version_and_help(self):
        self.assertEqual(self.follows_its_schema(self.json_of("--version")), "version")
        for words in ([], ["profile"], ["gate"]):
            self.assertEqual(self.follows_its_schema(self.json_of(*words, "--help")), "help")

    def test_completions(self):
        for shell in ("bash", "fish", "zsh"):
            self.assertEqual(self.follows_its_schema(self.json_of("completions", shell)), "completions")

    def test_a_plan_and_one_that_warns(self):
        plan = self.json_of("profile", *EMULATED, "--dry-run")
        self.assertEqual(self.follows_its_schema(plan), "plan")
        plan["findings"] = [{"code": "some-code", "severity": "warning", "message": "what it means"}]
        self.follows_its_schema(plan)

    def test_what_the_gate_accepts(self):
        result = self.folder / "result.json"
        self.succeeds("profile", *EMULATED, "--time-budget", "1s", "--quiet", "-o", result)
        for already_there in (False, True):
            document = self.json_of("gate", "accept", result, "--baseline", self.folder / "store", "--allow-untrusted")
            self.assertEqual(self.follows_its_schema(document), "accepted")
            self.assertEqual([each["already_there"] for each in document["accepted"]], [already_there])

    def test_every_command_that_prints_json_has_a_schema(self):
        printed = {file.name.removesuffix("-1.json") for file in SCHEMAS.iterdir()}
        named = set()
        for source in (SCHEMAS.parents[1] / "src").rglob("*.cpp"):
            for line in source.read_text(encoding="utf-8").splitlines():
                if '"schema"' in line and '"dsanalyze.' in line:
                    named.add(line.partition('"dsanalyze.')[2].partition("/1")[0])
        self.assertFalse(named - printed)


if __name__ == "__main__":
    unittest.main()
