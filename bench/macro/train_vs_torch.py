#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Seconds per epoch and accuracy of Linnet's trainer and of PyTorch, in one run on the same cores.

Same network (31-256-2, ReLU), rows, loss (categorical hinge with the false-submit weight), optimiser (Adam, 1e-3),
batch (128) and a shuffle per epoch; the order of rows and the first weights differ. Rows are those of a synthetic
device that is slow in bursts, split by time. PyTorch gets the rows as float32 tensors in memory and indexes them by a
permutation, which is faster than its DataLoader. Linnet uses one thread in every case.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    cargo build --release -p linnet-bench --example train_speed
    /tmp/torch/bin/python bench/macro/train_vs_torch.py --binary target/release/examples/train_speed
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def make_rows(np, count, seed):
    """Digits and labels of a device that is slow in bursts: 31 digits, then 1 for slow."""
    rng = np.random.default_rng(seed)
    switch = rng.random(count) < 0.02
    bursty = np.cumsum(switch) % 8 == 0
    pages = np.minimum(999, 1 + rng.geometric(1 / np.where(bursty, 60, 15)))
    base = rng.lognormal(np.log(np.where(bursty, 900, 120)), 0.5) + pages * 4
    latency = np.minimum(9_999, base).astype(np.int64)
    threshold = np.quantile(base, 0.9)
    digits = np.zeros((count, 31), np.uint8)
    for entry in range(4):
        back = 4 - entry
        for power in range(3):
            digits[back:, 3 * entry + power] = pages[:-back] // 10 ** (2 - power) % 10
        for power in range(4):
            digits[back:, 15 + 4 * entry + power] = latency[:-back] // 10 ** (3 - power) % 10
    for power in range(3):
        digits[:, 12 + power] = pages // 10 ** (2 - power) % 10
    return np.concatenate([digits, (base >= threshold).astype(np.uint8)[:, None]], axis=1)


def train_torch(np, torch, train, test, options, threads):
    """Seconds of each epoch and the test accuracy of PyTorch on so many threads."""
    torch.set_num_threads(threads)
    torch.manual_seed(options.seed)
    x = torch.from_numpy(train[:, :31].astype(np.float32))
    y = torch.nn.functional.one_hot(torch.from_numpy(train[:, 31].astype(np.int64)), 2).float()
    model = torch.nn.Sequential(torch.nn.Linear(31, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
    for layer in (model[0], model[2]):
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7)
    seconds = []
    for _ in range(options.epochs):
        start = time.perf_counter()
        order = torch.randperm(len(x))
        for at in range(0, len(x), 128):
            rows = order[at : at + 128]
            truth, out = y[rows], model(x[rows])
            own = (truth * out).sum(1)
            other = ((1 - truth) * out).max(1).values
            missed = (truth[:, 1] == 1) & (out[:, 1] <= out[:, 0])
            loss = torch.relu(1 + other - own) * (1 + (options.weight - 1) * missed)
            optimiser.zero_grad()
            loss.mean().backward()
            optimiser.step()
        seconds.append(time.perf_counter() - start)
        print(f"torch, {threads} threads: {seconds[-1]:.2f} s", file=sys.stderr)
    with torch.no_grad():
        out = model(torch.from_numpy(test[:, :31].astype(np.float32)))
        accuracy = ((out[:, 1] > out[:, 0]).numpy() == (test[:, 31] == 1)).mean()
    return seconds, float(accuracy)


def train_linnet(binary, train_path, test_path, options):
    """What the example train_speed reports of the same rows."""
    command = [
        binary,
        train_path,
        test_path,
        str(options.epochs),
        str(options.seed),
        str(options.weight),
    ]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    """Run both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--binary",
        type=pathlib.Path,
        required=True,
        help="the built example train_speed",
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weight", type=float, default=5.0)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], help="one run for each count")
    options = parser.parse_args()
    try:
        import numpy as np
        import torch
    except ImportError as error:
        print(f"skipped: {error}; pip install torch numpy", file=sys.stderr)
        return 77

    cores = sorted(os.sched_getaffinity(0))
    data = make_rows(np, options.rows + options.rows // 5, options.seed)
    train, test = data[: options.rows], data[options.rows :]
    result = {
        "rows": len(train),
        "torch": torch.__version__,
        "base_rate": float((test[:, 31] == 0).mean()),
        "runs": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        train_path, test_path = (
            os.path.join(folder, "train"),
            os.path.join(folder, "test"),
        )
        train.tofile(train_path)
        test.tofile(test_path)
        for threads in [count for count in options.cores if count <= len(cores)]:
            os.sched_setaffinity(0, cores[:threads])
            # In turns, so that a neighbour on the machine disturbs both.
            ours = train_linnet(options.binary.resolve(), train_path, test_path, options)
            theirs, accuracy = train_torch(np, torch, train, test, options, threads)
            run = {
                "cores": threads,
                "linnet_seconds": statistics.median(ours["seconds"]),
                "torch_seconds": statistics.median(theirs),
                "linnet_accuracy": ours["accuracy"],
                "linnet_accuracy_quantised": ours["accuracy_quantised"],
                "torch_accuracy": accuracy,
            }
            run["ratio"] = run["linnet_seconds"] / run["torch_seconds"]
            result["runs"].append(run)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
