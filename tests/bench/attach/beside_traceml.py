"""dsanalyze and TraceML (PyPI) on the same public scripts: what each says, and what watching costs.

usage: beside_traceml.py PROGRAM --repositories FOLDER --photos FOLDER --work FOLDER --python PYTHON [--only NAMES] [--rounds N] [--json FILE]

The scripts are those of public_scripts.json, each with so few epochs that it ends within about a minute. Each is run alone, by `traceml run --mode summary` as it is, by the
same with the lines that TraceML's guide asks for (`init()` and `trace_step()`, in a copy of the script), and by `dsanalyze profile --passive`, interleaved, --rounds times.
The seconds are those of the whole command. What TraceML says is its final summary; what dsanalyze says without changing the run is what --passive prints. PYTHON is one with
torch and traceml-ai. Let nothing else run.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

import public_scripts

# Options with which each ends soon: in place of the arguments with the same names, or beside them.
SHORT = {
    "examples-mnist": ["--epochs", "1"],
    "examples-vae": ["--epochs", "2"],
    "examples-dcgan": ["--niter", "2"],
    "examples-imagenet": ["--epochs", "1"],
    "examples-super-resolution": ["--nEpochs", "2"],
    "torchvision-classification": ["--epochs", "3"],
    "gan-cgan": ["--n_epochs", "1"],
}

# Where a step of each begins and ends: the model, the first line of the step, and the line that comes after it.
STEPS = {
    "examples-vae": ("model", "        data = data.to(device)", "        if batch_idx % args.log_interval == 0:"),
    "examples-imagenet": ("model", "        images = images.to(device, non_blocking=True)", "        # measure elapsed time"),
    "examples-super-resolution": ("model", "        input, target = batch[0].to(device), batch[1].to(device)", "        print(\"===> Epoch[{}]({}/{}): Loss: {:.4f}\""),
    "torchvision-classification": ("model", "        image, target = image.to(device), target.to(device)", "        if model_ema and i % args.model_ema_steps == 0:"),
    "gan-cgan": ("generator", "        batch_size = imgs.shape[0]", "        print("),
}


def shortened(script):
    """The command with SHORT's values."""
    words = list(script["command"])
    option, value = SHORT[script["name"]]
    if option in words:
        words[words.index(option) + 1] = value
        return words
    return [*words, option, value]


def timed(command, folder, script):
    begun = time.monotonic()
    run = subprocess.run(command, cwd=folder, env=public_scripts.environment_of(script), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=900)
    return time.monotonic() - begun, run


def traceml_command(arguments, words, logs, name):
    program = pathlib.Path(arguments.python).with_name("traceml")
    if words[0] == "-m":
        return None  # it takes the path of a script alone
    return [program, "run", "--mode", "summary", "--logs-dir", logs, "--run-name", name, words[0], "--args", *words[1:]]


def with_steps(script, folder, words):
    """The command of a copy of the script whose steps TraceML sees; nothing where STEPS lacks it."""
    if script["name"] not in STEPS:
        return None
    model, first, after = STEPS[script["name"]]
    text = (folder / words[0]).read_text()
    begin = text.index("\n" + first) + 1
    end = text.index("\n" + after, begin) + 1
    indent = first[:len(first) - len(first.lstrip())]
    inner = "".join(f"    {line}" if line.strip() else line for line in text[begin:end].splitlines(keepends=True))
    imports = text.index("import ") if text.startswith(("import ", "from ")) else text.index("\nimport ") + 1
    future = text.rfind("from __future__")
    imports = text.index("\n", future) + 1 if future >= 0 else imports
    copy = folder / f"traceml_{pathlib.Path(words[0]).name}"
    copy.write_text(text[:imports] + "import traceml_ai\ntraceml_ai.init(mode='auto')\n" + text[imports:begin] + f"{indent}with traceml_ai.trace_step({model}):\n" + inner + text[end:])
    return [copy.name, *words[1:]]


def summary_of(logs, name):
    """TraceML's final summary, or nothing."""
    found = sorted(pathlib.Path(logs).rglob("final_summary.json"))
    found = [place for place in found if name in place.parts]
    return json.loads(found[-1].read_text()) if found else None


def compared(arguments, script, places, work):
    folder = arguments.repositories / script["repository"].split("/")[-1] / script.get("folder", ".")
    public_scripts.made_links(script, folder, places)
    words = [word.format(**places) for word in shortened(script)]
    alone = [arguments.python, *words]
    logs = work / "traceml"
    instrumented = with_steps(script, folder, words)
    seconds = {"alone": [], "traceml": [], "traceml with its lines": [], "passive": []}
    said = {}
    for number in range(arguments.rounds):
        name = f"{script['name']}-{number}"
        shutil.rmtree(logs / name, ignore_errors=True)
        shutil.rmtree(logs / (name + "-steps"), ignore_errors=True)
        ways = {"alone": alone, "traceml": traceml_command(arguments, words, logs, name),
                "traceml with its lines": instrumented and traceml_command(arguments, instrumented, logs, name + "-steps"),
                "passive": [arguments.program, "profile", "--passive", "--quiet", "--", *alone]}
        order = list(ways)
        for way in order[number % 4:] + order[:number % 4]:
            if ways[way] is None:
                continue
            took, run = timed(ways[way], folder, script)
            if run.returncode != 0:
                said[way] = "failed: " + " ".join(run.stderr.strip().splitlines()[-1:])
                continue
            seconds[way].append(took)
            if way == "passive":
                said[way] = run.stderr.strip()[-2500:]
            if way.startswith("traceml"):
                said[way] = summary_of(logs, name if way == "traceml" else name + "-steps") or run.stdout.strip()[-2500:]
    if instrumented:
        (folder / instrumented[0]).unlink()
    medians = {way: statistics.median(each) for way, each in seconds.items() if each}
    costs = {way: medians[way] / medians["alone"] - 1 for way in medians if way != "alone" and "alone" in medians}
    return {"name": script["name"], "command": " ".join(words), "seconds": seconds, "medians": medians, "costs": costs, "said": said}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--repositories", type=pathlib.Path, required=True)
    parser.add_argument("--photos", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(shutil.which(arguments.program) or arguments.program)
    arguments.repositories, arguments.work = arguments.repositories.resolve(), arguments.work.resolve()
    places = public_scripts.made_data(arguments.program, arguments.photos.resolve(), arguments.work / "data")
    rows = []
    for script in json.loads(public_scripts.TABLE.read_text()):
        if script["name"] not in SHORT or (arguments.only and script["name"] not in arguments.only.split(",")):
            continue
        rows.append(compared(arguments, script, places, arguments.work))
        row = rows[-1]
        print(f"{row['name']:<28} alone {row['medians'].get('alone', 0):.1f} s; " + "; ".join(f"{way} {100 * cost:+.1f} %" for way, cost in row["costs"].items()), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
