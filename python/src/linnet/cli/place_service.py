# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet place serve`` and the commands that work on its state file while it does not run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from linnet.cli.options import AsJson, Seed, picture_destination
from linnet.cli.output import console, counted, destination, percent, print_json, table, warn
from linnet.extras import require
from linnet.files import whole_file, write_whole
from linnet.place.allocate import Settings
from linnet.place.catalogue import profiles as shipped
from linnet.place.confidence import VALUE_PERCENT
from linnet.place.profile_file import read_profile
from linnet.place.sheet import SheetModel
from linnet.place.slo import Asked, Slo, Tenant
from linnet.place.whatif import WhatIf
from linnet.place.words import Interference, Profile

if TYPE_CHECKING:
    from linnet.place.service.operations import Operations

StateThere = Annotated[Path, typer.Option("--state", help="The state, an SQLite file.")]
ModelFile = Annotated[
    Path | None,
    typer.Option("--model", help="Model file of `linnet place fit`.", show_default="what the data sheets say"),
]
Policy = Annotated[
    str | None, typer.Option(help="first-fit or best-fit.", show_default="what the state has, or first-fit")
]
LoadMax = Annotated[
    float | None,
    typer.Option(
        help="Share of a drive's time that its tenants may ask for together.",
        min=0.01,
        max=1000.0,
        show_default="what the state has, or 1.0",
    ),
]
TenantsMax = Annotated[
    int | None,
    typer.Option(help="Tenants that one drive may have.", min=1, show_default="what the state has, or 64"),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile", help="A JSON file of features, or a shipped or stored name. Without it the tenant is staged."
    ),
]
SloOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slo",
        help="As 'read_latency_p99_us<=500', 'read_bandwidth_mean>=1e8' or 'read_bandwidth_mean-5%'; "
        "'read_latency_p99_us<=500 at 95%' to be kept with this confidence; 60 to 90 need --model. Repeat it for more.",
    ),
]
CapacityOption = Annotated[int, typer.Option("--capacity-bytes", help="What the tenant stores.", min=0)]
DriveOption = Annotated[str | None, typer.Option("--drive", help="This drive or none.")]
PART = 1 << 20
"""Bytes of a backup that are written at once."""
SHOWN_MAX = 40
"""Letters of an id that a message repeats."""
SLO = re.compile(
    r"(?P<metric>\w+?)\s*(?:(?P<bound><=|>=)\s*(?P<value>[\d.eE+]+)|(?P<sign>[+-])\s*(?P<percent>[\d.]+)\s*%)"
    r"(?:\s*at\s*(?P<sure>\d+)\s*%)?"
)


def read_model(path: Path | None) -> Interference:
    """A fitted model, or the one of data sheets."""
    if path is None:
        return SheetModel()
    require("place", "--model")
    from linnet.place import fitted_file  # noqa: PLC0415

    return fitted_file.read_model(path)


@contextmanager
def opened(
    state: Path,
    model: Path | None = None,
    books_alone: bool = False,
    create: bool = False,
    policy: str | None = None,
) -> Iterator[Operations]:
    """The cluster of a state file, which is locked meanwhile; ``books_alone`` where no model is asked.

    Settings are those of the state, but for the policy if one is given. A file that is absent is an error unless
    ``create``; one that was made goes again if what it was made for fails.
    """
    require("serve", "the state of placement")
    from linnet.place.service.operations import Operations  # noqa: PLC0415
    from linnet.place.service.placed_by import other_model  # noqa: PLC0415
    from linnet.place.service.state import State  # noqa: PLC0415
    from linnet.place.service.unasked import Unasked  # noqa: PLC0415

    chosen = _given(policy=policy)
    asked = None if books_alone else read_model(model)
    file = State(state, create)
    try:
        kept = file.settings()
        if policy is not None and kept.get("policy", policy) != policy:
            warn(f"--policy {policy} holds for this command; the policy of {state} is {kept['policy']}")
        settings = Settings(**{**kept, **chosen})
        if asked is not None and (said := other_model(file, asked)):
            warn(said)
        yield Operations(file, asked or Unasked(file), settings)
    except BaseException:
        file.give_up()
        raise
    file.close()


def serve_command(
    state: Annotated[Path, typer.Option("--state", help="The state, an SQLite file; made if it is absent.")],
    listen: Annotated[str, typer.Option(help="Address and port; port 0 takes a free one.")] = "127.0.0.1:8717",
    drives: Annotated[
        Path | None, typer.Option(help="TOML file of drives that are registered at the start, unless removed.")
    ] = None,
    model: ModelFile = None,
    policy: Policy = None,
    load_max: LoadMax = None,
    tenants_max: TenantsMax = None,
    kubernetes: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="API server of the cluster whose pods are tenants, as https://kubernetes.default.svc in a pod.",
        ),
    ] = None,
    kubernetes_credentials: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the service account's `token` and `ca.crt`.")
    ] = Path("/var/run/secrets/kubernetes.io/serviceaccount"),
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which clients or a proxy ask for the service. On a loopback address, requests for other "
            "names than its own are refused. Repeat it for more.",
        ),
    ] = None,
) -> None:
    """Serve placement over HTTP until Ctrl-C or SIGTERM; requests in progress are finished.

    That takes 20 s at most.
    Policy and limits are kept in the state, for later starts and for the commands that work on it. Which model was
    given is kept too, but not the model: give it to each of them. /openapi.json
    describes the interface, /metrics is for Prometheus. There is no authentication: listen on a loopback address, or
    behind a proxy that has it.

    Example: [bold]linnet place serve --state cluster.db --drives drives.toml[/]
    """
    require("serve", "linnet place serve")
    from linnet.place.service.kubernetes_api import Api  # noqa: PLC0415
    from linnet.place.service.serve import read_drives, serve  # noqa: PLC0415

    chosen = _given(policy=policy, load_max=load_max, tenants_max=tenants_max)
    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise typer.BadParameter(f"{listen!r} is not ADDRESS:PORT, as 127.0.0.1:8717", param_hint="--listen")
    if host not in ("127.0.0.1", "::1", "[::1]", "localhost"):
        warn(f"listening on {listen}: anyone who can connect can place and remove tenants; there is no authentication")
    specs = [] if drives is None else read_drives(drives)
    api = None if kubernetes is None else Api(kubernetes, kubernetes_credentials)
    _refusal(lambda: serve(state, host.strip("[]"), int(port), read_model(model), chosen, specs, api, host_name or ()))


def drives_command(
    state: Annotated[Path, typer.Option("--state", help="The state, an SQLite file; --add makes it if it is absent.")],
    add: Annotated[Path | None, typer.Option(help="TOML file of drives to be registered.")] = None,
    update: Annotated[Path | None, typer.Option(help="TOML file of drives whose figures are to be corrected.")] = None,
    model: ModelFile = None,
    json: AsJson = False,
) -> None:
    """List the drives of a state file, register more, or correct figures of some.

    A correction moves no tenant; promises that the model then sees broken are listed, and figures that were known and
    are left out.

    Example: [bold]linnet place drives --state cluster.db --add drives.toml[/]
    """
    require("serve", "linnet place drives")
    from linnet.place.service.serve import read_drives  # noqa: PLC0415

    fresh, other = ([] if file is None else read_drives(file) for file in (add, update))
    with opened(state, model, books_alone=update is None and model is None, create=bool(fresh)) as do:
        corrected: dict[str, Any] = {"broken": {}, "warnings": []}
        with do.state.transaction():
            if fresh:
                _refusal(lambda: do.register([], fresh))
            if other:
                corrected |= _refusal(lambda: do.correct([], other)).body
        rows = do.list_drives(0, len(do.cluster))["drives"]
    for said in corrected["warnings"]:
        warn(said)
    if json:
        told = ("broken", "warnings") if update is not None else ()
        print_json({"drives": rows} | {name: corrected[name] for name in told})
        return
    columns = ["name", "model", "tenants", "load", "used_bytes", "capacity_bytes", "staging"]
    table(None, columns, [[row[name] for name in columns] for row in rows], left=2)
    for name, breaches in corrected["broken"].items():
        for one in breaches:
            console.print(f"{name}: {one}", markup=False)


def admit_command(
    tenant: Annotated[str, typer.Argument(help="Id of the tenant.")],
    state: StateThere,
    capacity_bytes: CapacityOption = 0,
    profile: ProfileOption = None,
    slo: SloOption = None,
    drive: DriveOption = None,
    model: ModelFile = None,
    policy: Policy = None,
    json: AsJson = False,
) -> None:
    """Place a tenant. Exit status 1 and the reasons if no drive can take it.

    Example: [bold]linnet place admit db-7 --state cluster.db --capacity-bytes 200000000000 --profile oltp --slo
    'read_latency_p99_us<=500'[/]
    """
    make = _tenant(tenant, capacity_bytes, profile, slo, drive)
    with opened(state, model, policy=policy) as do:
        one = make(do)
        answer = _refusal(lambda: _changed(do, lambda undo: do.admit(undo, one, drive)))
    if json:
        print_json(answer)
    else:
        console.print(f"{tenant}: {answer['drive']}{' (staged: to be measured)' if answer['staged'] else ''}")


def remove_command(
    tenant: Annotated[str, typer.Argument(help="Id of the tenant.")], state: StateThere, json: AsJson = False
) -> None:
    """Take a tenant away.

    Example: [bold]linnet place remove db-7 --state cluster.db[/]
    """
    with opened(state, books_alone=True) as do:
        answer = _refusal(lambda: _changed(do, lambda undo: do.remove(undo, tenant)))
    if json:
        print_json(answer)
    else:
        console.print(f"{tenant}: left {answer['drive']}")


def whatif_command(
    tenant: Annotated[str, typer.Argument(help="Id of the tenant that would come.")],
    state: StateThere,
    profile: ProfileOption = None,
    capacity_bytes: CapacityOption = 0,
    slo: SloOption = None,
    drive: DriveOption = None,
    model: ModelFile = None,
    picture: Annotated[
        Path | None, typer.Option(help="Write the effects as an SVG file.", callback=picture_destination)
    ] = None,
    json: AsJson = False,
) -> None:
    """May this tenant go there, and who suffers? Changes nothing.

    Example: [bold]linnet place whatif dump --state cluster.db --profile backup --drive node-1:nvme0n1 --picture
    dump.svg[/]
    """
    if picture is not None:
        require("report", "--picture")
    if profile is None:
        raise typer.BadParameter("give the profile of the tenant that would come", param_hint="--profile")
    make = _tenant(tenant, capacity_bytes, profile, slo, drive)
    with opened(state, model) as do:
        one = make(do)
        answer: WhatIf = _refusal(lambda: do.ask(one, drive))
        found = do.what_if(one, drive) if json else None
    if picture is not None:
        from linnet.place.whatif_figure import draw  # noqa: PLC0415

        write_whole(picture, draw(answer) + "\n")
    if json:
        print_json(found)
    else:
        console.print(answer.text(), markup=False)


def backup_command(
    state: StateThere,
    out: Annotated[Path, typer.Option("--out", "-o", help="The copy that is written.", callback=destination)],
    json: AsJson = False,
) -> None:
    """Copy a state, with what its log has. `GET /v1/backup` does so while the service runs.

    Example: [bold]linnet place backup --state cluster.db --out copy.db[/]
    """
    base = out.with_name(re.sub(r"-(wal|shm|journal)$", "", out.name))
    if base != out and base.exists():
        said = f"{out}: SQLite takes a file of this name for a part of {base}, and removes it; give another name"
        raise typer.BadParameter(said, param_hint="--out")
    with opened(state, books_alone=True) as do:
        copy, found = do.state.copy(), {"drives": len(do.cluster), "tenants": do.cluster.placed}
        with whole_file(out) as file:
            for at in range(0, copy.size, PART):
                file.write(copy.part(at, PART))
        copy.done()
    if json:
        print_json({"bytes": copy.size, **found})
    else:
        drives, tenants = counted(found["drives"], "drive"), counted(found["tenants"], "tenant")
        console.print(f"{out}: {drives}, {tenants}", markup=False)


def rebalance_command(
    state: StateThere,
    model: ModelFile = None,
    moves_max: Annotated[int, typer.Option(help="Moves at most.", min=0)] = 20,
    json: AsJson = False,
) -> None:
    """Advise moves that mend broken promises, leave staging drives, or empty drives. Moves nothing.

    Example: [bold]linnet place rebalance --state cluster.db --moves-max 5[/]
    """
    with opened(state, model) as do:
        found = do.advice(moves_max)
    if json:
        print_json(found)
        return
    columns, observed = ["tenant", "from", "to", "capacity_bytes", "reason"], found["drives_observed_broken"]
    table(None, columns, [[move[name] for name in columns] for move in found["moves"]], left=3)
    console.print(
        f"{len(found['moves'])} moves, {found['bytes_moved']:,} bytes: broken promises {found['broken_before']} -> "
        f"{found['broken_after']}, drives in use {found['drives_before']} -> {found['drives_after']}"
        f"{f'; promises observed to be broken on {observed} drives' if observed else ''}"
    )


def demo_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="The page that is written.", callback=destination)] = Path(
        "place-demo.html"
    ),
    tenants: Annotated[int, typer.Option(help="Tenants that ask for room.", min=1, max=500)] = 30,
    seed: Seed = 1,
) -> None:
    """Build a small cluster from shipped profiles, place tenants, and show who would suffer from a loud one.

    Example: [bold]linnet place demo --out place-demo.html[/]
    """
    require("report", "linnet place demo")
    from linnet.place.demo import page, run  # noqa: PLC0415

    demo = run(tenants, seed)
    cluster = demo.allocator.cluster
    rows = [
        [
            spec.drive.name,
            ", ".join(sorted(cluster.tenant(int(row)).id for row in cluster.tenants_on(index))),
            percent(demo.allocator.load(index)),
        ]
        for index, spec in enumerate(cluster.specs)
    ]
    table(f"{cluster.placed} tenants on {cluster.drives_used} drives", ["drive", "tenants", "load"], rows, left=2)
    for answer in (demo.crowded, demo.chosen):
        console.print(f"\n{answer.text()}", markup=False)
    write_whole(out, page(demo))
    console.print(f"\npage: [bold]{escape(str(out))}[/]", markup=True)
    console.print(
        "next: your own cluster: [bold]linnet place serve --state cluster.db --drives drives.toml[/]", markup=True
    )


def parse_slo(text: str) -> Slo:
    """An SLO as it is typed."""
    found = SLO.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError(
                "write METRIC<=VALUE, METRIC>=VALUE, METRIC+PERCENT% or METRIC-PERCENT%, and 'at 95%' for a confidence"
            )
        metric = found["metric"]
        sign = found["bound"] or found["sign"]
        if ("_bandwidth_" in metric) == (sign in ("<=", "+")):
            raise ValueError("a latency has <= or +, a bandwidth >= or -")
        sure = int(found["sure"] or VALUE_PERCENT)
        if found["bound"]:
            return Slo(metric, bound=float(found["value"]), confidence_percent=sure)
        return Slo(metric, degradation_percent=float(found["percent"]), confidence_percent=sure)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}", param_hint="--slo") from error


def _tenant(
    name: str, capacity_bytes: int, profile: str | None, slo: list[str] | None, drive: str | None
) -> Callable[[Operations], Tenant]:
    """What makes the tenant of a cluster. What needs no cluster is checked at once, before a state is made."""
    require("serve", "the state of placement")
    from linnet.place.service.schema import RATE_MAX, SLOWER_MAX  # noqa: PLC0415

    _check(name, capacity_bytes, drive)
    slos = tuple(parse_slo(text) for text in slo or [])
    for one in slos:
        for value, most in ((one.bound, RATE_MAX), (one.degradation_percent, SLOWER_MAX)):
            if value is not None and value > most:
                raise typer.BadParameter(f"{one.text()}: {value:g} is more than {most:g}", param_hint="--slo")

    def make(do: Operations) -> Tenant:
        found, named = (None, False) if profile is None else _profile(do, profile)
        if found is not None:
            _check(name, capacity_bytes, drive, found)
        return Tenant(name, capacity_bytes, found, slos, Asked.by(found, named))

    return make


def _profile(do: Operations, name: str) -> tuple[Profile, bool]:
    """A profile, and whether it is one that has a name."""
    known = {one.name: one for one in shipped()} | do.profiles
    if name in known:
        return known[name], True
    path = Path(name)
    if path.suffix == ".json" or path.exists():
        return read_profile(path), False
    said = f"no profile {name!r}; known are: {', '.join(sorted(known))}; or give a .json file"
    raise typer.BadParameter(said, param_hint="--profile")


def _check(name: str, capacity_bytes: int, drive: str | None, profile: Profile | None = None) -> None:
    """Refuse what ``POST /v1/tenants`` does not take: the service could not be asked about it."""
    from pydantic import ValidationError  # noqa: PLC0415

    from linnet.place.service.schema import NAME_FORM, TenantIn  # noqa: PLC0415

    features = None if profile is None else dict(profile.features)
    asked = {"id": name, "capacity_bytes": capacity_bytes, "drive": drive, "profile": features}
    try:
        TenantIn.model_validate(asked)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field, *inner = map(str, first["loc"])
        options = {"id": "TENANT", "capacity_bytes": "--capacity-bytes", "drive": "--drive", "profile": "--profile"}
        given = asked[field]
        if isinstance(given, str):
            shown = repr(given) if len(given) <= SHOWN_MAX else f"{given[:SHOWN_MAX]!r}..., {len(given)} letters,"
            said = f"{shown} cannot be used: {NAME_FORM}"
        else:
            said = ": ".join([*inner, first["msg"].removeprefix("Value error, ")])
        raise typer.BadParameter(said, param_hint=options[field]) from error


def _given(**options: str | float | None) -> dict[str, Any]:
    """Settings of placement that were given. What cannot be is refused at once, before a state is made."""
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    Settings(**chosen)
    return chosen


def _changed(do: Operations, work: Any) -> Any:
    with do.state.transaction():
        return work([]).body


def _refusal(work: Any) -> Any:
    """Carry out a request; what is refused becomes an error with its reasons."""
    from linnet.place.service.writer import Refused  # noqa: PLC0415

    try:
        return work()
    except Refused as error:
        reasons = "".join(f"\n  {reason}" for reason in error.more.get("reasons", []))
        raise ValueError(error.message + reasons) from error
