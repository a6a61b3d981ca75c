"""What `dsanalyze profile -- python SCRIPT` says of public training scripts, and whether its first advice holds when it is run.

usage: public_scripts.py PROGRAM --repositories FOLDER --photos FOLDER --work FOLDER [--python PYTHON] [--only NAMES] [--time-budget S] [--no-check] [--json FILE]

The scripts stand in public_scripts.json: repository (cloned below --repositories by its name), folder and arguments in it. "program" is a console script beside PYTHON, of the package "package".
They are unmodified but for "lines", which a copy beside the script has instead: a training without a DataLoader needs `dsanalyze.watch()`. Their data is made up in --work of the
photographs in --photos: as ImageNet lies ({imagenet}: train, val), as MNIST does ({mnist}), images with masks ({pairs}), with captions in tar shards ({captions}), with boxes
({detections}), and in one folder ({flat}); nanoGPT's tokens ({tokens}) and graphs as those of TU Dortmund lie ({graphs}) are random. A script's own folder for data is linked to it ("links"). PyTorch computes in one thread (OMP_NUM_THREADS=1), so that of a few cores some are left for workers. Each is profiled, and the command that its first advice names (`whatif ... --validate`) is run. Let nothing else run.
"""

import argparse
import io
import json
import os
import pathlib
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tarfile

from PIL import Image

TABLE = pathlib.Path(__file__).with_suffix(".json")


def made_up_mnist(folder):
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    generator = random.Random(1)
    for prefix, count in (("train", 60000), ("t10k", 10000)):
        with open(raw / f"{prefix}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 28, 28) + generator.randbytes(count * 28 * 28))
        with open(raw / f"{prefix}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(generator.randrange(10) for _ in range(count)))
    (folder / "FashionMNIST").symlink_to("MNIST")


def made_up_tokens(folder):
    folder.mkdir()
    generator = random.Random(1)
    for name, count in (("train", 1000000), ("val", 100000)):
        (folder / f"{name}.bin").write_bytes(b"".join(struct.pack("<H", generator.randrange(65)) for _ in range(count)))
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65}))


def made_up_graphs(folder):
    """3,000 rings of 15 to 30 nodes in the place of MUTAG."""
    generator = random.Random(1)
    edges, graphs, kinds, labels, first = [], [], [], [], 1
    for graph in range(1, 3001):
        count = generator.randrange(15, 31)
        for at in range(count):
            one, other = first + at, first + (at + 1) % count
            edges += [f"{one}, {other}", f"{other}, {one}"]
        graphs += [str(graph)] * count
        kinds += [str(generator.randrange(7)) for _ in range(count)]
        labels.append(str(graph % 2))
        first += count
    (folder / "raw").mkdir(parents=True)
    for name, lines in (("A", edges), ("graph_indicator", graphs), ("node_labels", kinds), ("graph_labels", labels)):
        (folder / "raw" / f"MUTAG_{name}.txt").write_text("\n".join(lines) + "\n")


def made_data(program, photos, folder):
    """The places of the data by name; made once."""
    places = {name: folder / name for name in ("imagenet", "mnist", "captions", "flat", "pairs", "detections", "tokens", "graphs", "out")}
    places["out"].mkdir(parents=True, exist_ok=True)
    if (folder / "complete").exists():
        return places
    shutil.rmtree(folder)
    places["out"].mkdir(parents=True)
    for name in ("imgs", "masks"):
        (places["pairs"] / name).mkdir(parents=True)
    for name in ("images", "labels"):
        (places["detections"] / name).mkdir(parents=True)
    places["captions"].mkdir()
    pictures = sorted(photos.rglob("*.jpg"))
    for at, picture in enumerate(pictures):
        # Five classes; every tenth picture is for validation.
        place = places["imagenet"] / ("val" if at % 10 == 0 else "train") / f"n{at // 10 % 5:08}" / picture.name
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(picture, place)
        for kind in ("train", "test", "val"):
            (places["flat"] / kind).mkdir(parents=True, exist_ok=True)
        os.link(picture, places["flat"] / ("test" if at % 10 == 0 else "val" if at % 10 == 1 else "train") / picture.name)
        os.link(picture, places["pairs"] / "imgs" / picture.name)
        os.link(picture, places["detections"] / "images" / picture.name)
        (places["detections"] / "labels" / f"{picture.stem}.txt").write_text(f"{at % 10} 0.5 0.5 0.4 0.4\n")
        with Image.open(picture) as image:
            Image.new("L", image.size, at % 2).save(places["pairs"] / "masks" / f"{picture.stem}.png")
        with tarfile.open(places["captions"] / f"{at // 100:06}.tar", "a") as shard:
            shard.add(picture, f"{at:08}.jpg")
            caption = f"photograph {at}".encode()
            member = tarfile.TarInfo(f"{at:08}.txt")
            member.size = len(caption)
            shard.addfile(member, io.BytesIO(caption))
    (places["detections"] / "data.yaml").write_text(f"path: {places['detections']}\ntrain: images\nval: images\nnames: [{', '.join(f'class{each}' for each in range(10))}]\n")
    made_up_mnist(places["mnist"])
    made_up_tokens(places["tokens"])
    made_up_graphs(places["graphs"])
    (folder / "complete").touch()
    return places


def made_links(script, folder, places):
    for link, target in script.get("links", {}).items():
        link = folder / link
        if not link.is_symlink():
            if link.is_dir():  # A place that the repository holds for it.
                shutil.rmtree(link)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target.format(**places))


def command_of(arguments, script, folder, places):
    first, *others = (word.format(**places) for word in script["command"])
    if "program" in script:
        return [pathlib.Path(arguments.python).parent / script["program"], first, *others]
    if "lines" in script:
        text = (folder / first).read_text()
        for found, instead in script["lines"]:
            if found not in text:
                raise ValueError(f"{first} of {script['name']} has no line {found!r}")
            text = text.replace(found, instead)
        first = f"followed_{first}"
        (folder / first).write_text(text)
    return [arguments.python, first, *others]


def first_advice(record):
    """Code and text of what is to be done first, and the command that checks it."""
    fix = record.get("fix")
    if fix:
        return f"num_workers={fix['workers']} ({fix['speedup']:.2f}x)", fix["check"]
    for advice in record["advice"]:
        return f"{advice['code']}: {advice['text']}", None
    return "-", None


def environment_of(script):
    return dict(os.environ, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", WANDB_MODE="disabled", **script.get("environment", {}))


def checked(arguments, script, command, folder, place):
    """The prediction and what was measured of the change, from the command that the profile names."""
    words = command.replace("dsanalyze", arguments.program, 1).split()
    run = subprocess.run([*words, "--json", "-o", place], cwd=folder, env=environment_of(script), capture_output=True, text=True, check=False, timeout=900)
    if not place.exists():
        return {"failed": run.stderr.strip().splitlines()[-1:]}
    result = json.loads(place.read_text())
    answer = next((each for each in result["answers"][1:] if each.get("measured")), None)
    validation = result.get("validation") or {}
    if answer is None:
        return {"outcome": validation.get("outcome", "not run"), "why": [each.get("not_measured") for each in result["answers"]]}
    found = result["answers"][0].get("measured") or {}
    measured = answer["measured"]
    return {"predicted": answer["samples_per_s"], "predicted_interval": answer.get("ci95_samples_per_s"), "measured": measured["samples_per_s"],
            "measured_interval": measured.get("ci95_samples_per_s"), "error": measured["error"], "covered": measured.get("covered"),
            "gain_predicted": answer.get("speedup"), "gain_measured": measured["samples_per_s"] / found["samples_per_s"] if found.get("samples_per_s") else None,
            "outcome": validation.get("outcome")}


def profiled(arguments, script, places, work):
    folder = work if "package" in script else arguments.repositories / script["repository"].split("/")[-1] / script.get("folder", ".")
    made_links(script, folder, places)
    commit = subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    place = work / f"{script['name']}.json"
    place.unlink(missing_ok=True)
    command = command_of(arguments, script, folder, places)
    run = subprocess.run([arguments.program, "profile", "--time-budget", f"{arguments.time_budget:g}s", "--quiet", "-o", place, "--", *command], cwd=folder, env=environment_of(script),
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False)
    row = {"name": script["name"], "repository": script.get("repository") or script["package"], "commit": commit, "command": " ".join(script["command"])}
    if not place.exists():
        return {**row, "failed": " ".join(run.stderr.strip().splitlines()[-1:])}
    record = json.loads(place.read_text())
    bottleneck, waits = record.get("bottleneck") or {}, record.get("waits") or {}
    advice, check = first_advice(record)
    row.update(verdict=bottleneck.get("detail", "none"), confident=bottleneck.get("confident"), waits=(waits.get("data") or {}).get("fraction"),
               outside=(waits.get("outside") or {}).get("fraction"), rates={letter: (record["rates"].get(letter) or {}).get("samples_per_s") for letter in "GPCS"},
               found=(record.get("attained") or {}).get("samples_per_s"), advice=advice, workers=record["loader"]["workers"],
               findings=[finding["code"] for finding in record["findings"]], hot=record.get("hot"))
    if check and not arguments.no_check:
        row["check"] = checked(arguments, script, check, folder, work / f"{script['name']}.check.json")
    return row


def told(row):
    if "failed" in row:
        return f"{row['name']:<28} FAILED: {row['failed']}"
    waits = f"{100 * row['waits']:.1f} %" if row["waits"] is not None else "-"
    check = row.get("check") or {}
    said = f"predicted {check['predicted']:.4g}, measured {check['measured']:.4g} ({100 * check['error']:+.1f} %), {check['outcome']}" if "predicted" in check else str(check or "")
    return f"{row['name']:<28} {row['verdict'] + ('' if row['confident'] else '?'):<13} waits {waits:<7} {row['advice']}  {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--repositories", type=pathlib.Path, required=True)
    parser.add_argument("--photos", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only")
    parser.add_argument("--time-budget", type=float, default=40)
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(shutil.which(arguments.program) or arguments.program)
    arguments.repositories, arguments.work = arguments.repositories.resolve(), arguments.work.resolve()
    places = made_data(arguments.program, arguments.photos.resolve(), arguments.work / "data")
    rows = []
    for script in json.loads(TABLE.read_text()):
        if arguments.only and script["name"] not in arguments.only.split(","):
            continue
        rows.append(profiled(arguments, script, places, arguments.work))
        print(told(rows[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
