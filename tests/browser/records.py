"""The profiles that pages are made of: what the writer of sample records prints, changed into every kind that pages tell apart."""

import copy
import json
import math
import os
import pathlib
import subprocess

PRINTER = os.environ.get("PRINT_RESULTS", "print_results")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "results"
INTERVAL = "ci95_samples_per_s"
SIZES = [2000 + 4 * i ** 2.4 + 900 * i for i in range(101)]
# What HTML, scripts and terminals would trip over, each with a mark of its own: window.hacked must stay unset.
HOSTILE = "</script><script>window.hacked=1;alert(1)</script><img src=x onerror=\"window.hacked=1\">'\"`<!--<svg/onload=window.hacked=1>&amp;\u2028{{sections}}"


def sample(name):
    return json.loads(subprocess.run([PRINTER], check=True, capture_output=True, timeout=60).stdout)[name]


def rate(samples_per_s, error):
    return {"samples_per_s": samples_per_s, "bytes_per_s": samples_per_s * 110_000,
            INTERVAL: {"low": samples_per_s * (1 - error), "high": samples_per_s * (1 + error)}, "windows": 12, "void_windows": 1, "method": "counted"}


def timeline(seconds, points, storage):
    return [{"t_seconds": seconds * (i + 1) / points, "cpu_fraction": 0.75 + 0.2 * math.sin(i / 5), "memory_bytes": (2 << 30) + i * (40 << 20),
             "storage_bytes_per_s": storage * (1 + 0.1 * math.sin(i / 3)), "cache_hit_fraction": 0.352 if i > 10 else 0.0} for i in range(points)]


def full():
    """Every field filled; rates of [DS-Analyzer, Table 5], a MinIO cache of 35 %, real prep on 8 cores measured on 1, 2, 4, 6 and 8."""
    record = sample("profile")
    record["rates"] = {"G": rate(20_000, 0.004), "P": rate(10_208, 0.021), "C": rate(251_950, 0.03), "S": rate(4698.5, 0.012), "N": rate(6400, 0.015),
                       "F": {**rate(7156.6, 0.01), "cache_fraction": 0.352}}
    record["settings"].update(dataset="/data/imagenet", cache="minio", admit="first", order="random", prep="real", scale=1, cores=8, workers=8, accelerators=4)
    record["dataset"].update(path="/data/imagenet", samples=1_281_167, bytes=140_928_370_000, mean_sample_bytes=110_000.0)
    record["host"].update(cores=8, cores_online=8, cores_physical=6, memory_bytes=32 << 30, memory_total_bytes=64 << 30)
    record["stalls"] = {"compute": {"seconds_per_epoch": 64.1, "fraction": 0.358, INTERVAL.replace("samples_per_s", "fraction"): {"low": 0.35, "high": 0.366}},
                        "prep": {"seconds_per_epoch": 61.4, "fraction": 0.343, INTERVAL.replace("samples_per_s", "fraction"): {"low": 0.33, "high": 0.356}},
                        "fetch": {"seconds_per_epoch": 53.5, "fraction": 0.299, INTERVAL.replace("samples_per_s", "fraction"): {"low": 0.28, "high": 0.318}}}
    record["curves"]["P_by_cores"] = [{"cores": cores, "samples_per_s": value, INTERVAL: {"low": value * 0.98, "high": value * 1.02}}
                                      for cores, value in ((1, 1500), (2, 2900), (4, 5500), (6, 8000), (8, 10_208))]
    record["curves"]["S_by_request"] = [{"request_bytes": size, "concurrency": 15, "bytes_per_s": size / (2e-4 + size * 1.9e-9)}
                                        for size in (4096, 110_000, 1 << 20, 1 << 23)]
    record["distributions"]["sample_bytes"] = {"count": 50_000, "mean": sum(SIZES) / len(SIZES), "quantiles": SIZES}
    prep_run, full_run = record["runs"]
    prep_run.update(samples=90_000, seconds=9.0, samples_per_s=10_208.0, epoch_seconds=125.5, storage_bytes=0,
                    timeline=timeline(9, 40, 0), prep_operators=[{"name": "decode", "fraction": 0.6, "seconds_per_sample": 4.7e-4},
                                                                 {"name": "resize", "fraction": 0.3, "seconds_per_sample": 2.3e-4},
                                                                 {"name": "normalise", "fraction": 0.1, "seconds_per_sample": 8e-5}])
    full_run.update(samples_per_s=7157.0, samples=220_000, epoch_seconds=179.0, timeline=timeline(31, 60, 5.1e8), storage_bytes=15_700_000_000,
                    cache_hits=77_440, cache_misses=142_560)
    full_run["stall_seconds"] = {"count": 430, "mean": 0.021, "quantiles": [0.0004 * 1.06 ** i for i in range(101)]}
    return record


def changed(record, **settings):
    record = copy.deepcopy(record)
    record["settings"].update(settings)
    return record


def hostile():
    """Text from outside that would like to be more than text."""
    record = full()
    record["dataset"].update(path="/data/" + HOSTILE, digest=HOSTILE)
    record["settings"].update(dataset=HOSTILE, workload=HOSTILE, storage_name=HOSTILE, accelerator_name=HOSTILE)
    record["host"].update(cpu_model=HOSTILE, kernel=HOSTILE + "\x1b[31m\x07")
    record["host"]["storage"].update(device=HOSTILE, filesystem=HOSTILE)
    record["bottleneck"].update(reason=HOSTILE, detail=HOSTILE)
    record["advice"] = [{"code": "more-cache", "text": HOSTILE, "evidence": [HOSTILE], "steps": [{"loader": HOSTILE, "text": HOSTILE}]}]
    record["findings"] = [{"code": HOSTILE, "severity": "warning", "message": HOSTILE}]
    for run in record["runs"]:
        run["prep_operators"] = [{"name": HOSTILE, "fraction": 1.0, "seconds_per_sample": 1e-3}]
        run["failures"] = [{"cause": HOSTILE, "count": 1, "example": HOSTILE}]
    for one in record["rates"].values():
        one["method"] = HOSTILE
    for rank in record["ranks"]:
        rank["host"] = HOSTILE + "\x1b[31m"
        for epoch in rank["epochs"]:
            epoch["digest"] = HOSTILE
    return record


def sliding_kinds():
    """By name: what the answers behind the page's sliders depend on."""
    base = full()
    one_count = copy.deepcopy(base)
    one_count["curves"]["P_by_cores"] = []
    no_accelerator = changed(base, accelerator="none")
    del no_accelerator["rates"]["G"], no_accelerator["stalls"]
    no_cores = changed(base, cores=0, workers=0)
    no_cores["host"]["cores"] = 0
    no_cores["curves"]["P_by_cores"] = []
    balanced = copy.deepcopy(base)
    balanced["rates"].update(G=rate(10_000, 0.05), P=rate(10_000, 0.05), F={**rate(10_000, 0.05), "cache_fraction": 0.5})
    unsure_third = copy.deepcopy(base)  # fetch lies above accelerators and prep, and may yet be the lowest
    unsure_third["rates"].update(G=rate(10_000, 0.01), P=rate(10_500, 0.01), S=rate(7200, 0.2))
    without_storage = json.loads((EXAMPLES / "prep.json").read_text())
    without_storage["rates"]["S"] = None
    one_window = copy.deepcopy(base)
    one_window["rates"]["P"].update(windows=1, **{INTERVAL: {"low": 10_208, "high": 10_208}})
    return {
        "minio": base,
        "unsure-third": unsure_third,
        "one-window": one_window,
        "minio-one-core-count": one_count,
        "emulated-prep-scaled": changed(base, prep="emulated", scale=1000),
        "cost-aware": changed(base, admit="cost-aware"),
        "lru": changed(base, cache="lru"),
        "lru-sequential": changed(base, cache="lru", order="sequential"),
        "page-model-random": changed(base, cache="page-model:random"),
        "page-model-random-sequential": changed(base, cache="page-model:random", order="sequential"),
        "page-model-linux": changed(base, cache="page-model:linux"),
        "page": changed(base, cache="page"),
        "no-cache": changed(base, cache="none"),
        "no-accelerator": no_accelerator,
        "no-cores": no_cores,
        "balanced": balanced,
        "launched": json.loads((EXAMPLES / "prep.json").read_text()),
        "launched-without-storage": without_storage,
    }


def swept_profiles():
    """By name: profiles of two settings, every combination, with what their full runs reach."""
    profiles = {}
    for cache in (0.25, 0.5, 1.0):
        for cores in (4, 8):
            record = changed(full(), cores=cores, workers=cores, cache_size={"fraction": cache})
            run = record["runs"][1]
            run["samples_per_s"] = 3000 + 4000 * cache + 100 * cores
            run[INTERVAL] = {"low": run["samples_per_s"] - 50, "high": run["samples_per_s"] + 50}
            profiles[f"sweep-{int(100 * cache)}-{cores}"] = record
    return profiles


def hostile_examination():
    record = sample("doctor")
    record["dataset"] = HOSTILE
    for check in record["checks"]:
        check.update(title=HOSTILE, found=HOSTILE, why=HOSTILE, fix=HOSTILE, commands=[{"where": "here", "command": HOSTILE}])
    return record


def all_kinds():
    return {**sliding_kinds(), "hostile": hostile(), "least": sample("least_profile"), **swept_profiles(), "whatif": sample("whatif"),
            "simulate": sample("simulate"), "doctor": sample("doctor"), "gate": sample("gate"), "hostile-doctor": hostile_examination()}
