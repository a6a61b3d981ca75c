"""How fast PyTorch trains a network whose batches are always there: what `dsanalyze profile DATASET --accelerator pytorch` starts.

The one argument is a JSON object: "network" (a name in torchvision.models), "device" ("cuda", "cpu" or "": CUDA where there is some), "batch" and
"crop" (samples, and pixels of each side), "labels", "seconds" (how long to measure), "out" (a file). What is found goes to that file, a JSON object a
line: first what trains, or why nothing does ({"error": ...}); then {"seconds", "samples"} of each few steps, counted from the first line.
"""

import json
import os
import sys
import time

WARM_UP_STEPS = 3
LEAST_SECONDS_OF_A_LINE = 0.02  # so that waiting for the device costs a line little
LEAST_LINES = 5
MOST_LINES = 1000


def say(out, **what):
    out.write(json.dumps(what) + "\n")
    out.flush()


def wanted_device(torch, asked):
    if asked != "cpu" and torch.cuda.is_available():
        return "cuda", torch.cuda.get_device_name()
    if asked == "cuda":
        raise RuntimeError(f"PyTorch {torch.__version__} finds no CUDA device")
    return "cpu", f"CPU, threads: {torch.get_num_threads()}"


def make_network(torchvision, name, labels):
    maker = getattr(torchvision.models, name, None)
    if maker is None or name.startswith("_") or not callable(maker):
        raise RuntimeError(f'torchvision {torchvision.__version__} has no network "{name}"')
    return maker(num_classes=labels)


def measure(question, out):
    parent = os.getppid()
    import torch
    import torchvision

    kind, device_name = wanted_device(torch, question["device"])
    torch.manual_seed(0)
    network = make_network(torchvision, question["network"], question["labels"]).to(kind).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    batch, crop = question["batch"], question["crop"]
    images = torch.randn(batch, 3, crop, crop, device=kind)
    labels = torch.randint(question["labels"], (batch,), device=kind)
    scaler = torch.cuda.amp.GradScaler() if kind == "cuda" else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(kind, enabled=scaler is not None):
            loss = torch.nn.functional.cross_entropy(network(images), labels)
        if scaler is None:
            loss.backward()
            optimizer.step()
            return
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def wait():
        if kind == "cuda":
            torch.cuda.synchronize()

    for _ in range(WARM_UP_STEPS - 1):
        step()
    wait()
    began = time.perf_counter()
    step()
    wait()
    steps_a_line = max(1, round(LEAST_SECONDS_OF_A_LINE / max(time.perf_counter() - began, 1e-6)))
    say(out, torch=torch.__version__, torchvision=torchvision.__version__, device=kind, name=device_name, mixed_precision=scaler is not None)
    began, samples = time.perf_counter(), 0
    for line in range(MOST_LINES):
        for _ in range(steps_a_line):
            step()
        wait()
        samples += batch * steps_a_line
        passed = time.perf_counter() - began
        if os.getppid() != parent:
            raise RuntimeError("who asked has ended")
        say(out, seconds=passed, samples=samples)
        if passed > question["seconds"] and line >= LEAST_LINES:
            break


def main():
    sys.path.pop(0)  # this file's folder is none of the user's
    question = json.loads(sys.argv[1])
    with open(question["out"], "w") as out:
        try:
            measure(question, out)
        except ImportError as error:
            say(out, error=f"{error}, for the python3 that PATH leads to ({sys.executable})")
            raise SystemExit(1) from None
        except BaseException as error:
            say(out, error=f"{type(error).__name__}: {error}".strip().splitlines()[0][:500])
            raise SystemExit(1) from None


if __name__ == "__main__":
    main()
