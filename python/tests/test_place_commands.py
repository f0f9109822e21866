# SPDX-License-Identifier: MIT OR Apache-2.0
"""Commands on the state of placement: the examples of their help, and what they refuse as the service does."""

import inspect
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from linnet.cli import app, place_service
from linnet.place.allocate import Settings
from linnet.place.catalogue import profiles
from linnet.place.cluster import DriveSpec
from linnet.place.fitted import PlacementModel
from linnet.place.fitting import model_file
from linnet.place.service import schema
from linnet.place.service.state import State
from linnet.place.slo import Slo, Tenant
from linnet.place.words import Drive
from place_client import DRIVES_TOML, Service
from place_made import GB, SHEET
from typer.testing import CliRunner

COMMANDS = ("drives", "admit", "whatif", "rebalance", "backup", "remove")
READS = {"read_aligned_rate_mean": 100.0, "read_aligned_size_bytes_mean": 4096.0, "depth": 2.0}
PROMISE = ("--slo", "read_latency_p99_us<=900")


def test_the_examples_of_the_help_run_in_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guide/place-service.md").read_text()
    found = re.search(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert found
    (tmp_path / "drives.toml").write_text(found[1])
    monkeypatch.chdir(tmp_path)
    for name in COMMANDS:
        text = " ".join((inspect.getdoc(getattr(place_service, f"{name}_command")) or "").split())
        examples = re.findall(r"Example: \[bold\](.*?)\[/\]", text)
        assert examples, name
        for line in examples:
            done = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
            assert done.exit_code == 0, f"{line}\n{done.output}"


def test_the_confidence_that_help_and_guide_show_needs_no_model(tmp_path: Path, state: Path) -> None:
    shown = re.findall(r"'(\S+ at \d+%)'", " ".join(_said("admit", "--help")[1].replace("│", " ").split()))
    shown += re.findall(r"--slo '(\S+ at \d+%)'", (ROOT / "docs/guide/place-service.md").read_text())
    assert len(shown) == 2
    for slo in shown:
        code, said = _said("whatif", "t", "--state", state, "--profile", "oltp", "--drive", "d0", "--slo", slo)
        assert code == 0 and "linnet place fit" not in said, said


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    made = State(path)
    with made.transaction():
        made.add_drive(DriveSpec(Drive("d0", "made", SHEET), 10 * GB))
        made.add_drive(DriveSpec(Drive("s0", "made"), 10 * GB, staging=True))
    made.close()
    return path


def _said(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["place", *map(str, words)], terminal_width=200)
    text = " ".join(done.output.replace("│", " ").split())
    return done.exit_code, text or str(done.exception)


def test_limits_of_the_service_hold_for_the_commands(tmp_path: Path, state: Path) -> None:
    """They are kept by the state, whichever start gave them; a policy that is given to a command is its own."""
    features = tmp_path / "p.json"
    features.write_text(json.dumps({"name": "p", "features": READS}))
    for options, said in (
        (["--tenants-max", 1, "--load-max", 0.9], ""),
        ([], ""),
        (["--load-max", 0.8, "--policy", "best-fit"], "linnet place: load_max is 0.8 from now on; it was 0.9\n"),
    ):
        with Service(state, *options) as service:
            client = service.client()
            client.wait()
            client.connection.close()
            assert service.stop() == 0
            assert service.process.stderr.read() == said
    admitted = _said("admit", "a", "--state", state, "--profile", features)
    assert admitted[0] == 0, admitted[1]
    admitted = _said("admit", "b", "--state", state, "--profile", features)
    assert admitted[0] == 1 and "1 drives would pass load_max or tenants_max" in admitted[1]
    asked = _said("whatif", "b", "--state", state, "--profile", features)
    assert "1 drives would pass load_max or tenants_max" in asked[1]
    with place_service.opened(state) as do:
        assert do.allocator.settings == Settings(policy="best-fit", load_max=0.8, tenants_max=1)
    with place_service.opened(state, policy="first-fit") as do:
        assert do.allocator.settings.policy == "first-fit" and do.state.settings()["policy"] == "best-fit"
    other = _said("admit", "b", "--state", state, "--profile", features, "--policy", "first-fit")
    assert "--policy first-fit holds for this command; the policy of" in other[1]


def test_a_state_says_by_which_model_it_was_placed(
    tmp_path: Path, state: Path, placement_model: PlacementModel
) -> None:
    """Without it, or with another, a drive may have no load that is known, and promises none that are predicted."""
    ours, other = tmp_path / "m.linnet", tmp_path / "other.linnet"
    ours.write_bytes(model_file(placement_model))
    other.write_bytes(model_file(replace(placement_model, read_share=None)))
    placed = f"{state}: its tenants were placed by the model {ours} (checksum "
    without = "; give it as --model. Without it a data sheet alone says what a drive can do"

    def started(*options: object) -> str:
        with Service(state, *options) as service:
            assert service.stop() == 0
            return service.process.stderr.read()

    assert started() == ""
    assert started("--model", ours) == ""
    said = started()
    assert said.startswith(f"linnet place: {placed}") and said.endswith(f"){without}\n")
    assert started("--model", ours) == "", "a start without it does not forget it"
    assert _said("admit", "a", "--state", state, "--profile", "oltp", "--model", ours) == (0, "a: d0")
    asked = ("whatif", "b", "--state", state, "--profile", "oltp")
    for command in (asked, ("rebalance", "--state", state), ("admit", "b", "--state", state, "--profile", "oltp")):
        assert without in _said(*command)[1]
        assert "were placed by" not in _said(*command, "--model", ours)[1]
    assert "were placed by" not in _said("drives", "--state", state)[1], "no model is asked"
    said = started("--model", other)
    assert said.startswith(f"linnet place: {placed}") and said.endswith("; this one does from now on\n")
    assert f", not by {other} (" in said
    assert started("--model", other) == ""


def test_what_has_no_interval_is_null(tmp_path: Path, state: Path, placement_model: PlacementModel) -> None:
    model = tmp_path / "m.linnet"
    none = np.full_like(placement_model.known_factor, np.nan)
    model.write_bytes(model_file(replace(placement_model, known_factor=none, new_factor=none)))
    promise = [{"metric": "write_latency_p99_us", "bound": 1e9, "confidence_percent": 95}]
    writes = {name.replace("read", "write"): value for name, value in READS.items()}
    with Service(state, "--model", model) as service:
        client = service.client()
        assert client.ask("POST", "/v1/tenants", {"id": "a", "capacity_bytes": 1, "profile": writes})[0] == 201
        found = client.ask("GET", "/v1/tenants/a")[1]["predictions"]["write_latency_p99_us"]
        assert found["value"] > 0 and found["low90"] is None and found["high90"] is None
        asked = {"id": "b", "capacity_bytes": 1, "profile": writes, "drive": "d0"}
        status, body = client.ask("POST", "/v1/whatif", asked | {"slos": promise})
        assert status == 200 and not body["allowed"] and body["effects"][0]["after"]["low90"] is None
        assert "write_latency_p99_us cannot be promised at 95 %: too few drives were measured" in body["reasons"][0]
        status, body = client.ask("POST", "/v1/tenants", asked | {"slos": promise})
        assert (status, body["code"]) == (409, "no_room") and "cannot be promised at 95 %" in body["reasons"][0]


def test_a_promise_of_another_model_names_the_state_and_the_option(state: Path, tmp_path: Path) -> None:
    kept = State(state)
    with kept.transaction():
        kept.add_tenant(Tenant("a", GB, None, (Slo("read_latency_p99_9_us", bound=9.0),)), "d0")
    kept.close()
    status, said = _said("rebalance", "--state", state)
    assert status == 1 and said.startswith(f"{state}: tenant a: the model does not predict read_latency_p99_9_us")
    assert said.endswith("give that as --model")


def test_a_copy_is_a_state(tmp_path: Path, state: Path) -> None:
    link, copy = tmp_path / "link.db", tmp_path / "copy.db"
    link.symlink_to("s.db")
    assert _said("backup", "--state", link, "-o", copy) == (0, f"{copy}: 2 drives, 0 tenants")
    assert _said("drives", "--state", copy, "--json") == _said("drives", "--state", state, "--json")
    assert "also the input --state" in _said("backup", "--state", link, "-o", state)[1]
    assert "no such file" in _said("backup", "--state", tmp_path / "absent.db", "-o", copy)[1]
    for part in ("wal", "shm", "journal"):
        for base in (state, link, copy):
            status, said = _said("backup", "--state", state, "-o", f"{base}-{part}")
            assert status == 2 and f"takes a file of this name for a part of {base}" in re.sub(r"(?<=/) ", "", said)
        alone = tmp_path / f"alone-{part}"
        assert _said("backup", "--state", state, "-o", alone) == (0, f"{alone}: 2 drives, 0 tenants")
    assert _said("admit", "t", "--state", state, "--profile", "oltp")[0] == 0
    assert _said("backup", "--state", state, "-o", copy)[1].endswith(": 2 drives, 1 tenant")


def test_a_model_that_is_given_is_read(tmp_path: Path) -> None:
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    bad = tmp_path / "bad.linnet"
    bad.write_bytes(b"none")
    words = ("drives", "--state", tmp_path / "s.db", "--add", tmp_path / "drives.toml")
    status, said = _said(*words, "--model", bad)
    assert status == 1 and said.startswith(f"{bad}: ")
    assert not (tmp_path / "s.db").exists()
    assert _said(*words)[0] == 0


@pytest.mark.parametrize("share", ["inf", "nan", "0", "1001"])
def test_a_share_of_time_is_a_number(tmp_path: Path, share: str) -> None:
    assert _said("serve", "--state", tmp_path / "s.db", "--load-max", share, "--listen", "x")[0] != 0
    assert "ADDRESS:PORT" not in _said("serve", "--state", tmp_path / "s.db", "--load-max", share, "--listen", "x")[1]


@pytest.mark.parametrize("command", ["admit", "whatif"])
@pytest.mark.parametrize("name", ["x/y", "é", "a\tb", "a\x1b[31m", "a" * 100_000, ".a", "", "\udcff"])
def test_an_id_that_http_cannot_say_is_refused(tmp_path: Path, command: str, name: str) -> None:
    status, said = _said(command, name, "--profile", "oltp", "--state", tmp_path / "absent.db")
    why = "is not UTF-8" if name == "\udcff" else "A-Z a-z 0-9 . _ : -"
    assert status == 2 and "tenant" in said.lower() and why in said
    assert len(said) < 1000 and "\x1b[31m" not in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("features", "more", "said"),
    [
        (READS | {"read_aligned_rate_mean": 1e308}, (), "read_aligned_rate_mean: Input should be less than"),
        (READS | {"write_random_ratio": 7}, (), "write_random_ratio is 7: a ratio is at most 1"),
        (
            {"read_aligned_bandwidth_mean": 1e6},
            (),
            "read_aligned_bandwidth_mean is 1000000: the group has a rate_mean of 0",
        ),
        ({"write_unaligned_rate_mean": 10}, (), "write_unaligned_size_bytes_mean: zero or absent"),
        ({}, PROMISE, "no rate_mean is above 0"),
        (READS, ("--capacity-bytes", 10**19), "--capacity-bytes"),
        (READS, ("--slo", "read_latency_p99_us<=1e16"), "--slo"),
        (READS, ("--slo", "read_latency_p99_us+10001%"), "--slo"),
        (READS, ("--drive", "x/y"), "--drive"),
    ],
)
def test_what_the_service_refuses_the_command_refuses(
    state: Path, tmp_path: Path, features: dict[str, float], more: tuple[object, ...], said: str
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"name": "p", "features": features}))
    status, text = _said("admit", "a", "--state", state, "--profile", path, *more)
    assert status != 0 and said in text
    assert _said("remove", "a", "--state", state)[0] != 0
    path.write_text(json.dumps({"name": "p", "features": READS}))
    assert _said("admit", "a", "--state", state, "--profile", path, *PROMISE) == (0, "a: d0")


def test_shipped_profiles_are_what_the_service_takes() -> None:
    for one in profiles():
        schema.Features.model_validate(dict(one.features))
