"""The profiles that pages are made of: what the writer of sample records prints, changed into every kind that pages tell apart."""

import copy
import json
import os
import subprocess

PRINTER = os.environ.get("PRINT_RESULTS", "print_results")
INTERVAL = "ci95_samples_per_s"


def rate(samples_per_s, error):
    return {"samples_per_s": samples_per_s, "bytes_per_s": samples_per_s * 110_000,
            INTERVAL: {"low": samples_per_s * (1 - error), "high": samples_per_s * (1 + error)}, "windows": 12, "void_windows": 1, "method": "counted"}


def full():
    """Every field filled; rates of [DS-Analyzer, Table 5], a MinIO cache of 35 %, real prep on 8 cores measured on 1, 2, 4 and 8."""
    record = json.loads(subprocess.run([PRINTER], check=True, capture_output=True, timeout=60).stdout)["profile"]
    record["rates"] = {"G": rate(20_000, 0.004), "P": rate(10_208, 0.021), "C": rate(251_950, 0.03), "S": rate(4698.5, 0.012),
                       "F": {**rate(7156.6, 0.01), "cache_fraction": 0.352}}
    record["settings"].update(cache="minio", admit="first", order="random", prep="real", scale=1, cores=8, workers=8, accelerators=4)
    record["dataset"].update(samples=1_281_167, bytes=140_928_370_000, mean_sample_bytes=110_000.0)
    record["host"].update(cores=8, cores_online=8, cores_physical=6)
    record["curves"]["P_by_cores"] = [{"cores": cores, "samples_per_s": value, INTERVAL: {"low": value * 0.98, "high": value * 1.02}}
                                      for cores, value in ((1, 1500), (2, 2900), (4, 5500), (6, 8000), (8, 10_208))]
    record["curves"]["S_by_request"] = [{"request_bytes": size, "concurrency": 15, "bytes_per_s": size / (2e-4 + size * 1.9e-9)}
                                        for size in (4096, 110_000, 1 << 20, 1 << 23)]
    sizes = [2000 + 4 * i ** 2.4 + 900 * i for i in range(101)]
    record["distributions"]["sample_bytes"] = {"count": 50_000, "mean": sum(sizes) / len(sizes), "quantiles": sizes}
    return record


def changed(record, **settings):
    record = copy.deepcopy(record)
    record["settings"].update(settings)
    return record


def all_kinds():
    """By name. What differs is what the equations and the page's sliders depend on."""
    base = full()
    one_curve = copy.deepcopy(base)
    one_curve["curves"]["P_by_cores"] = []
    no_accelerator = changed(base, accelerator="none")
    del no_accelerator["rates"]["G"]
    no_cores = changed(base, cores=0, workers=0)
    no_cores["host"]["cores"] = 0
    no_cores["curves"]["P_by_cores"] = []
    balanced = copy.deepcopy(base)
    balanced["rates"].update(G=rate(10_000, 0.05), P=rate(10_000, 0.05), F={**rate(10_000, 0.05), "cache_fraction": 0.5})
    return {
        "minio": base,
        "minio-one-core-count": one_curve,
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
    }
