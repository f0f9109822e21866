# SPDX-License-Identifier: MIT OR Apache-2.0
"""All commands: where each is, and the line that the help of its group has for it. Nothing here imports them.

A test compares these lines with the help of the commands themselves.
"""

from __future__ import annotations

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "linnet": {
        "label": (
            "linnet.cli.learn:label_command",
            "Find each device's inflection point: the latency that separates its fast reads from its slow ones.",
        ),
        "fit": ("linnet.cli.learn:fit_command", "Train a model from traces and test it on their held-out part."),
        "evaluate": (
            "linnet.cli.learn:evaluate_command",
            "Test a model on traces and compare it with the base rate (the accuracy of always submitting).",
        ),
        "compare": (
            "linnet.cli.compare:compare_command",
            "Compare admission policies on a flash array in virtual time, driven by traces.",
        ),
        "whatif": (
            "linnet.cli.compare:whatif_command",
            "Show what each policy would do to your read tail, and whether Linnet is worth installing. Touches no "
            "device.",
        ),
        "demo": (
            "linnet.cli.demo:demo_command",
            "Train on a modelled array of three drives and show what each policy does to its read latency.",
        ),
        "replay": (
            "linnet.cli.replay:replay_command",
            "Replay traces in real time on drives served over NBD, under a policy.",
        ),
        "trace": ("", "Inspect, convert, merge, re-rate and generate traces."),
        "ssd": ("", "Run, explain, check and serve the SSD model by itself."),
        "dm": ("", "Set up, monitor and control the device-mapper target of the kernel module dm-linnet."),
        "tune": ("", "Knobs of the kernel that follow the workload: readahead of files, devices and mounts."),
        "place": (
            "",
            "Placement of tenants on shared SSDs: predict interference, judge the predictions on measured drives.",
        ),
        "bench": ("", "How fast the engine is on this machine."),
        "study": ("", "Experiments behind the published results: accuracy of models, latency of policies."),
    },
    "trace": {
        "stat": ("linnet.cli.trace:stat", "Print rates, sizes, read share and latency quantiles of a trace."),
        "formats": ("linnet.cli.trace:formats", "List the formats that can be read, for --format."),
        "convert": (
            "linnet.cli.trace:convert",
            "Read a trace of any format and write it as Parquet, CSV or fio iolog.",
        ),
        "merge": (
            "linnet.cli.trace:merge",
            "Merge traces into one, to simulate workloads that share a drive. Each trace becomes a tenant.",
        ),
        "rerate": (
            "linnet.cli.trace:rerate",
            "Change the I/O rate of a trace, by a factor or to match a latency distribution (LinnOS, section 5.1).",
        ),
        "synth": ("linnet.cli.trace:synth", "Generate a workload with the statistics of a row of LinnOS's Table 1."),
    },
    "ssd": {
        "run": (
            "linnet.cli.ssd:run",
            "Run workloads on one modelled drive: latency of each I/O, statistics of the drive and of each stream.",
        ),
        "explain": (
            "linnet.cli.ssd:explain",
            "Show which mechanism made slow reads slow: the ground truth for testing a black-box model.",
        ),
        "check": (
            "linnet.cli.ssd:check",
            "Compare the model with another simulator's answers, on the same workload and parameters.",
        ),
        "params": (
            "linnet.cli.ssd:params",
            "Print a preset as a TOML parameter file. Change it and pass it with --params.",
        ),
        "precondition": (
            "linnet.cli.ssd:precondition",
            "Fill a drive and overwrite it until garbage collection is in steady state, and save it.",
        ),
        "serve": (
            "linnet.cli.ssd:serve",
            "Serve modelled drives over NBD in real time: each request is held until the time at which the model "
            "answers it.",
        ),
        "calibrate": ("linnet.cli.calibrate:calibrate", "Fit the SSD model to a measured drive."),
    },
    "dm": {
        "create": ("linnet.cli.dm:create", "Create a device that sends each read to the replica that will be fast."),
        "status": (
            "linnet.cli.dm:show_status",
            "Print the counters of the target, and the state and latency of each replica.",
        ),
        "load": (
            "linnet.cli.dm:load_model",
            "Load a model into a running device. I/O continues meanwhile, and on any error the old model stays.",
        ),
        "policy": (
            "linnet.cli.dm:policy",
            "Change the policy of a running device, or how many late reads it sends to a second replica.",
        ),
        "replace": (
            "linnet.cli.dm:replace",
            "Put another device in a replica's place, or the same drive that came back under another name.",
        ),
        "remove": ("linnet.cli.dm:remove", "Remove a device. The data of its replicas stays."),
        "export-trace": (
            "linnet.cli.dm:export_trace",
            "Record what each replica served and write it as traces for `linnet fit`.",
        ),
        "adopt": (
            "linnet.cli.dm_volume:adopt",
            "Put a volume around an existing md raid1 array. The array is stopped for a moment; no data is moved.",
        ),
        "release": (
            "linnet.cli.dm_volume:release",
            "Take a volume off its md array. What is left is an ordinary array with the same data, on its drives.",
        ),
        "start": (
            "linnet.cli.dm_volume:start",
            "Start a volume above md again, from its description in /etc/linnet/volumes.d.",
        ),
        "trust": (
            "linnet.cli.dm_volume:trust",
            "Let reads of a volume above md go to the drives that md says hold everything.",
        ),
    },
    "tune": {
        "doctor": (
            "linnet.cli.tune:doctor",
            "Look at the readahead value of every device and mount. Changes nothing and needs no root.",
        ),
        "readahead": (
            "linnet.cli.tune:readahead",
            "Give each file the readahead that suits how it is read. Needs root.",
        ),
        "nfs": (
            "linnet.cli.tune:nfs",
            "Give an NFS mount the readahead that its readers and the way to the server take. Needs root.",
        ),
        "files": (
            "linnet.cli.tune:files",
            "Show who has a file open, with which readahead, and which of them the tuner would leave alone. Needs "
            "root.",
        ),
        "restore": (
            "linnet.cli.tune:restore",
            "Put back every value that Linnet changed and left: after `--once`, or after a crash. Needs root.",
        ),
        "calibrate": (
            "linnet.cli.tune_calibrate:calibrate",
            "Learn from a sweep on this device which readahead suits which way of reading. Needs root.",
        ),
    },
    "bench": {
        "ssd": (
            "linnet.studies.cli.bench:ssd",
            "Measure the SSD model on one core: requests per second, instructions per request, memory per page.",
        ),
        "tune": (
            "linnet.studies.cli.bench:tune",
            "Nanoseconds of a knob's network, tree and ring, next to a plain re-implementation of KML's data path; "
            "and of the observer's program on a read from memory, next to an empty one (needs root).",
        ),
        "decide": (
            "linnet.studies.cli.bench:decide",
            "Measure the nanoseconds of an admission decision, and of a plain int64 loop in the same run.",
        ),
        "place": (
            "linnet.studies.cli.bench:place",
            "Measure one placement in a cluster whose drives have one to seven tenants.",
        ),
        "service": (
            "linnet.studies.cli.bench:service",
            "Measure the placement service under many clients on the loopback interface, and check its books "
            "afterwards.",
        ),
    },
    "place": {
        "judge": (
            "linnet.cli.place:judge",
            "Judge interference models on measured drives, by the questions that an operator asks.",
        ),
        "fit": (
            "linnet.cli.place:fit",
            "Fit an interference model to measured drives: tables ssdiq-threads and ssdiq-drives, or any of their "
            "columns.",
        ),
        "predict": (
            "linnet.cli.place:predict",
            "Predict a tenant's latency and bandwidth beside its neighbours on a drive, with 90 % intervals.",
        ),
        "profile": (
            "linnet.cli.place_profile:profile",
            "Profile the tenants of traces: the 27 features that interference models use (spec/profile.md).",
        ),
        "label": (
            "linnet.cli.place_label:label",
            "Run tenants together on a drive: rows of profiles and of what each tenant saw.",
        ),
        "plan": (
            "linnet.cli.place_plan:plan_command",
            "Plan which recorded tenants share a drive: mixes are run before they are put together.",
        ),
        "serve": (
            "linnet.cli.place_service:serve_command",
            "Serve placement over HTTP until Ctrl-C or SIGTERM; requests in progress are finished.",
        ),
        "drives": (
            "linnet.cli.place_service:drives_command",
            "List the drives of a state file, register more, or correct figures of some.",
        ),
        "admit": (
            "linnet.cli.place_service:admit_command",
            "Place a tenant. Exit status 1 and the reasons if no drive can take it.",
        ),
        "remove": ("linnet.cli.place_service:remove_command", "Take a tenant away."),
        "whatif": (
            "linnet.cli.place_service:whatif_command",
            "May this tenant go there, and who suffers? Changes nothing.",
        ),
        "backup": (
            "linnet.cli.place_service:backup_command",
            "Copy a state, with what its log has. `GET /v1/backup` does so while the service runs.",
        ),
        "rebalance": (
            "linnet.cli.place_service:rebalance_command",
            "Advise moves that mend broken promises, leave staging drives, or empty drives. Moves nothing.",
        ),
        "demo": (
            "linnet.cli.place_service:demo_command",
            "Build a small cluster from shipped profiles, place tenants, and show who would suffer from a loud one.",
        ),
    },
    "study": {
        "accuracy": (
            "linnet.studies.cli.accuracy:accuracy_command",
            "Test every model on the same later reads of each device, beside always submitting and a ceiling.",
        ),
        "colocation": (
            "linnet.studies.cli.colocation:colocation_command",
            "Predict ten metrics of tenants that share a modelled drive: R2, and MAE relative to the gray-box "
            "forest's.",
        ),
        "latency": (
            "linnet.studies.cli.latency:latency_command",
            "Run policies across presets and device-wide shares, and compare their gains with the oracle's.",
        ),
        "drift": (
            "linnet.studies.cli.drift:drift_command",
            "Measure what a change of the device does to a model that is trained once, monitored, or trained again "
            "and again.",
        ),
        "interference": (
            "linnet.studies.cli.interference:interference_command",
            "Measure what a reader loses to a neighbour that varies one property: the gray-box paper's Figures 3 to "
            "10.",
        ),
        "informed": (
            "linnet.studies.cli.informed:informed_command",
            "Measure what linnet-best would gain from a model of a given accuracy, up to one that is always right.",
        ),
        "packing": (
            "linnet.studies.cli.packing:packing_command",
            "Count the drives that workloads need at each SLO, and the tenants whose SLO each placement breaks.",
        ),
        "paths": (
            "linnet.studies.cli.paths:paths_command",
            "Measure the parts of a path selector's score: what each CPU keeps, size classes, sampling, age, I/Os in "
            "flight.",
        ),
        "violations": (
            "linnet.studies.cli.violations:violations_command",
            "Place workloads by several models, run every drive's mix on the SSD model, and count the tenants that "
            "suffer.",
        ),
        "probing": (
            "linnet.studies.cli.probing:probing_command",
            "Estimate how many revokes are false by sampled probes, and compare with the truth, which the simulator "
            "knows.",
        ),
        "recorded": (
            "linnet.studies.cli.recorded:recorded_command",
            "Fill drives to the highest recorded load that each model allows, and count the promises that the record "
            "breaks.",
        ),
        "shapes": (
            "linnet.studies.cli.shapes:shapes_command",
            "Measure what history, width and depth gain and cost: Table 3 of LinnOS, its models A to E and ours.",
        ),
        "tune": (
            "linnet.studies.cli.tune:tune_command",
            "Compare the tuner's features with KML's: accuracy on held-out rows, runs and workloads, and what each is "
            "worth.",
        ),
        "worth": (
            "linnet.studies.cli.worth:worth_command",
            "Compare linnet-best with the best rule that has no model, in every cell and for every figure.",
        ),
    },
}
"""Of each group its commands, in the order of its help: module and function (none for a group), and line of help."""
