# SPDX-License-Identifier: MIT OR Apache-2.0
"""The packaged files that run the placement service agree with it."""

import configparser
import shlex
from pathlib import Path

from linnet.place.service.connections import CONNECTIONS_MAX, FILES
from linnet.place.service.serve import ARRIVE_S, FINISH_S
from linnet.place.service.writer import STOP_S
from place_client import DRIVES_TOML, Service

PACKAGING = Path(__file__).parents[2] / "packaging"


def test_the_unit_of_systemd_runs_the_service(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(PACKAGING / "linnet-place.service")
    one = unit["Service"]
    command, *words = shlex.split(one["ExecStart"])
    assert Path(command).name == "linnet" and words[:2] == ["place", "serve"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--state"].startswith(f"/var/lib/{one['StateDirectory']}/")
    assert options["--listen"].startswith("127.0.0.1:"), "there is no authentication"
    assert int(one["TimeoutStopSec"]) >= 1.5 * (max(ARRIVE_S, FINISH_S) + STOP_S)
    assert int(one["LimitNOFILE"]) >= CONNECTIONS_MAX + FILES
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    given = options | {"--listen": "127.0.0.1:0", "--state": tmp_path / "s.db", "--drives": tmp_path / "drives.toml"}
    with Service(tmp_path / "s.db", *(word for pair in given.items() for word in pair)) as running:
        assert running.client().ask("GET", "/v1/drives")[1]["total"] == 2


def test_a_pod_is_killed_only_if_it_takes_no_requests(tmp_path: Path) -> None:
    """Liveness waits for no other request; readiness does, so that none are sent to a service that is stuck."""
    text = (PACKAGING / "kubernetes" / "place.yaml").read_text()
    probes = {
        name: text.split(f"{name}:\n", 1)[1].split("path: ", 1)[1].split(",", 1)[0]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert probes == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/healthz"}
    start = text.split("startupProbe:\n", 1)[1]
    pause, times = (int(start.split(f"{word}: ", 1)[1].split()[0]) for word in ("periodSeconds", "failureThreshold"))
    assert pause * times >= 300, "to take in a large state takes a minute, and nobody is answered before"
    assert "limits: { memory:" in text
    stuck = "import threading\nfrom linnet.place.service.operations import Operations\n"
    stuck += "Operations.list_drives = lambda *words: threading.Event().wait()"
    with Service(tmp_path / "s.db", before=stuck) as running:
        running.client().connection.request("GET", "/v1/drives")
        assert running.client().ask("GET", "/livez") == (200, {"status": "ok"})
