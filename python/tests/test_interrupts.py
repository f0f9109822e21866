# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ctrl-C ends a long call with KeyboardInterrupt; no model that is trained in part comes back."""

import os
import signal
import subprocess
import sys
import threading
from functools import cache

import linnet
import numpy as np
import pytest
from conftest import device_trace
from linnet import _native
from linnet.estimator import LinnosClassifier

CHANCE = np.random.default_rng(0)
DIGITS = CHANCE.integers(0, 10, (2000, 31)).astype(np.uint8)
SLOW = DIGITS[:, 3] > 5
FEATURES = CHANCE.random((100_000, 8)).astype("f4")
CLASSES = CHANCE.integers(0, 2, len(FEATURES))
FOREVER = 10**9
LOG = device_trace(reads=50_000)
DRIVE = _native.Device("sata", precondition=False)


@cache
def small_model():
    """A model whose evaluation has no epochs or other steps."""
    return linnet.fit(device_trace(), settings=linnet.FitSettings(epochs=1))[0].model


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (lambda: LinnosClassifier(hidden=(16,), epochs=FOREVER).fit(DIGITS, SLOW), "train_network"),
        (lambda: _native.train_network(DIGITS, SLOW, [16], FOREVER, 128, 5.0, 0), "train_network"),
        (lambda: _native.train_network(DIGITS[:, :9].copy(), SLOW, [16], FOREVER, 128, 5.0, 0), "train_network"),
        (lambda: linnet.Tree.fit(FEATURES, CLASSES, max_depth=64, max_leaves=2048), "fit"),
        (
            lambda: _native.KnobModel.fit(
                FEATURES[:500], CLASSES[:500].tolist(), [4, 8], epochs=FOREVER, parts="network"
            ),
            "fit",
        ),
        (
            lambda: _native.KnobModel.fit(
                FEATURES, CLASSES.tolist(), [4, 8], parts="tree", max_depth=64, max_leaves=2048
            ),
            "fit",
        ),
        (lambda: linnet.fit(LOG, settings=linnet.FitSettings(epochs=10**6)), "fit"),
        (lambda: _native.evaluate(small_model(), [LOG] * 20, 1.0), "evaluate"),
        (lambda: linnet.synth("az-c", 8000.0, 1, 0), "synth"),
        (lambda: DRIVE.saturate(4, 10**7, 4096), "saturate"),
        (lambda: DRIVE.overwritten(10**15, 0), "overwritten"),
        (lambda: DRIVE.tenants([(1e6, 0.0, False, 4)], 100_000.0, 100_000.0, 0), "tenants"),
    ],
)
def test_long_work_is_interrupted(work, name):
    small_model()
    told = []
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    # Only the function that raised has c_exception; one that returned has c_return, and a signal comes after it.
    sys.setprofile(lambda frame, event, what: told.append((event, getattr(what, "__name__", ""))))
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        sys.setprofile(None)
        timer.cancel()
    assert ("c_exception", name) in told
    assert ("c_return", name) not in told


FIRST_ARRAY = """
import signal
import linnet

def interrupt(*_):
    raise KeyboardInterrupt

log = linnet.Trace.read({path!r})
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.01)
try:
    linnet.training_rows(log, 100_000)
except KeyboardInterrupt:
    print("interrupted")
"""
"""The signal is pending when the engine looks for numpy, which nothing has imported."""


def test_the_first_array_is_interrupted(tmp_path):
    path = tmp_path / "log.parquet"
    device_trace(reads=100_000).write(path)
    code = FIRST_ARRAY.format(path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
