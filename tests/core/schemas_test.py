"""The result records match the published schemas. Arguments: the program that prints sample records, the folder of schemas."""

import copy
import json
import pathlib
import subprocess
import sys
import unittest

try:
    import jsonschema
except ImportError:
    sys.exit(77)  # Meson: skipped. Debian: python3-jsonschema

PRINTER, SCHEMA_FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
SCHEMA_OF = {"profile": "profile-1", "dependent_profile": "profile-1", "least_profile": "profile-1", "whatif": "whatif-1", "simulate": "simulate-1", "simulate_draws": "simulate-1", "dataset": "dataset-1",
             "doctor": "doctor-2", "gate": "gate-1", "share": "share-1", "error": "error-1"}
DOCUMENTS = json.loads(subprocess.run([PRINTER], check=True, capture_output=True, timeout=30).stdout)


def validator(name):
    schema = json.loads((SCHEMA_FOLDER / f"{SCHEMA_OF[name]}.json").read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


class Schemas(unittest.TestCase):
    def test_every_sample_record_is_valid(self):
        self.assertEqual(set(DOCUMENTS), set(SCHEMA_OF))
        for name, document in DOCUMENTS.items():
            with self.subTest(name):
                self.assertEqual([error.message for error in validator(name).iter_errors(document)], [])

    def test_a_record_without_one_of_its_fields_is_invalid(self):
        for name, document in DOCUMENTS.items():
            optional = {"labels", "skipped", "already_there", "index_file", "content_digest", "failed", "failures", "seconds", "damaged_files", "files", "array",
                        "destination", "to", "search", "validation", "job_mix", "distributions", "started_utc", "sharing", "jobs", "trials",
                        "partition", "ranks", "index_digest", "content_sample_digest", "attained", "patched", "patched_samples"}
            for field in set(document) - optional:
                with self.subTest(record=name, field=field):
                    broken = {key: value for key, value in document.items() if key != field}
                    self.assertFalse(validator(name).is_valid(broken))

    def test_the_schemas_name_every_field_that_is_written(self):
        # Schemas allow further fields, so a new one would pass unnoticed; here they are closed first.
        def close(schema):
            if isinstance(schema, dict):
                if "properties" in schema:
                    schema["additionalProperties"] = False
                for value in schema.values():
                    close(value)
            elif isinstance(schema, list):
                for value in schema:
                    close(value)

        for name, document in DOCUMENTS.items():
            with self.subTest(name):
                checker = validator(name)
                schema = copy.deepcopy(checker.schema)
                close(schema)
                self.assertEqual([error.message for error in type(checker)(schema).iter_errors(document)], [])

    def test_a_rate_of_zero_is_invalid(self):
        broken = copy.deepcopy(DOCUMENTS["profile"])
        broken["rates"]["P"]["samples_per_s"] = 0
        self.assertFalse(validator("profile").is_valid(broken))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
