// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readahead tuner and its doctor. Rows and events travel as JSON, as the commands print them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use linnet_tune::device::Rivals;
use linnet_tune::event::Event;
use linnet_tune::host::Host;
use linnet_tune::journal::{Journal, Lock};
use linnet_tune::model::Model;
use linnet_tune::nfs::tune::NfsOptions;
use linnet_tune::observe;
use linnet_tune::openfile::{self, Descriptor, FileId};
use linnet_tune::rule::{Decider, Rule};
use linnet_tune::tuner::{Options, Scope, Tuner, only_dev};
use linnet_tune::{bdi, doctor, nfs, recover};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{self, TuneError};
use crate::progress::Progress;

/// A knob's file and its value in KiB.
type Knobs = Vec<(String, u32)>;
/// Process, descriptor, readahead in KiB, and why it is left alone.
type OpenFile = (u32, u32, u32, Option<&'static str>);
/// Devices and their values, devices that somebody else set, those that are gone and how that is known, open files, and
/// points where a mount was taken off.
type Restored = (Knobs, Knobs, Vec<(String, String)>, usize, Vec<String>);

/// Ctrl-C is looked for so often.
const STEP: Duration = Duration::from_millis(100);

/// A year. `BACKOFF_S_MAX` of the command is the same.
const SECONDS_MAX: f64 = 365.0 * 86_400.0;

/// The machine, or the one whose files lie below `root`.
pub fn host(root: Option<&str>) -> Host {
    root.map_or_else(Host::default, Host::below)
}

/// The Python exception of an error.
pub fn refused(error: linnet_tune::Error) -> PyErr {
    match error {
        linnet_tune::Error::File { path, source, .. } => errors::file(&path, source),
        other => TuneError::new_err(other.to_string()),
    }
}

/// What is wrong with readahead values: one JSON object for each device and mount, and for how many processes' mapped
/// files there was no time. `root` replaces the machine's.
#[pyfunction]
#[pyo3(signature = (seconds = 1.0, root = None))]
pub fn tune_doctor(py: Python<'_>, seconds: f64, root: Option<&str>) -> PyResult<(Vec<String>, usize)> {
    let pause = duration("seconds", seconds)?;
    let host = host(root);
    let mut progress = Progress::new(None);
    let wait = || {
        let end = Instant::now() + pause;
        while Instant::now() < end && progress.tell(()) {
            std::thread::sleep(STEP.min(end.saturating_duration_since(Instant::now())));
        }
    };
    let report = py.detach(|| doctor::examine(&host, pause, wait)).map_err(refused)?;
    progress.raised().map_or(Ok(()), Err)?;
    Ok((report.rows.iter().map(|row| row.to_json().to_string()).collect(), report.left_out))
}

/// What the observer sees on this machine, and in words what it does not.
#[pyfunction]
pub fn tune_sight(py: Python<'_>) -> PyResult<(bool, bool, bool, Vec<String>)> {
    let sight = py.detach(|| observe::best(&Host::default(), None).map(|o| o.sight().clone())).map_err(refused)?;
    Ok((sight.files, sight.demands, sight.descriptors, sight.limits))
}

fn rivals_of(rivals: &str) -> PyResult<Rivals> {
    match rivals {
        "auto" => Ok(Rivals::Auto),
        "yield" => Ok(Rivals::Yield),
        "insist" => Ok(Rivals::Insist),
        other => Err(PyValueError::new_err(format!("rivals is {other:?}; give auto, yield or insist"))),
    }
}

/// A parameter in seconds; a year at most.
fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(PyValueError::new_err(format!("{name} is {seconds:?}; give 0 to {SECONDS_MAX}")))
}

/// Tunes readahead until `tell` answers False. `tell(line)` gets each event as JSON, and None at every tick.
/// `model` is a model file; without one the rule decides.
#[pyfunction]
#[pyo3(signature = (tell, device = None, cgroup = None, once = false, dry_run = false, scope = "both", rivals = "auto",
                    backoff_seconds = 600.0, model = None))]
#[allow(clippy::too_many_arguments)]
pub fn tune_readahead(
    py: Python<'_>,
    tell: Py<PyAny>,
    device: Option<String>,
    cgroup: Option<String>,
    once: bool,
    dry_run: bool,
    scope: &str,
    rivals: &str,
    backoff_seconds: f64,
    model: Option<PathBuf>,
) -> PyResult<()> {
    let scope = match scope {
        "both" => Scope::Both,
        "files" => Scope::Files,
        "devices" => Scope::Devices,
        other => return Err(PyValueError::new_err(format!("scope is {other:?}; give both, files or devices"))),
    };
    let rivals = rivals_of(rivals)?;
    let backoff = duration("backoff_seconds", backoff_seconds)?;
    let options = Options { device, cgroup, dry_run, once, scope, rivals, backoff, ..Options::default() };
    let mut progress = Progress::new(Some(tell));
    let outcome = py.detach(|| -> linnet_tune::Result<()> {
        let host = Host::default();
        let rule = Rule::default();
        let model = model.as_deref().map(Model::read).transpose()?;
        let mut line = |event: Option<&Event>| progress.tell((event.map(|event| event.to_json().to_string()),));
        let mut observer = observe::best(&host, only_dev(&host, &options)?)?;
        let decider: &dyn Decider = match &model {
            // Its features are of demands; those of batches are too coarse for it.
            Some(_) if !observer.sight().demands => {
                let why = "which pages are asked for cannot be seen here: the rule decides, not the model";
                line(Some(&Event::note("note", "", why)));
                &rule
            }
            Some(model) => model,
            None => &rule,
        };
        let tuner = Tuner::start(&host, options, decider, observer.as_mut(), &mut |event| line(Some(event)))?;
        tuner.run(&mut line)
    });
    outcome.map_err(refused)?;
    // Answering False is how the caller ends a tuner; what it raised is its own.
    progress.raised().map_or(Ok(()), Err)
}

/// Tunes an NFS mount until `tell` answers False. `tell(line)` gets each event as JSON, and None at every tick. `model`
/// is a model file of schema nfs-1 or readahead-1; without one the rule decides. With `rsize` the read size is turned
/// too.
#[pyfunction]
#[pyo3(signature = (tell, mount, once = false, dry_run = false, model = None, rsize = false, rivals = "auto",
                    backoff_seconds = 600.0))]
#[allow(clippy::too_many_arguments)]
pub fn tune_nfs(
    py: Python<'_>,
    tell: Py<PyAny>,
    mount: String,
    once: bool,
    dry_run: bool,
    model: Option<PathBuf>,
    rsize: bool,
    rivals: &str,
    backoff_seconds: f64,
) -> PyResult<()> {
    let (rivals, backoff) = (rivals_of(rivals)?, duration("backoff_seconds", backoff_seconds)?);
    let options = NfsOptions { mount, dry_run, once, model, rsize, rivals, backoff };
    let mut progress = Progress::new(Some(tell));
    let mut line = |event: Option<&Event>| progress.tell((event.map(|event| event.to_json().to_string()),));
    py.detach(|| nfs::tune::run(&Host::default(), &options, &mut line)).map_err(refused)?;
    progress.raised().map_or(Ok(()), Err)
}

/// Puts back what the journal says is changed.
#[pyfunction]
#[pyo3(signature = (root = None))]
pub fn tune_restore(root: Option<&str>) -> PyResult<Restored> {
    let host = host(root);
    let back = || {
        let _lock = Lock::take(&host)?;
        recover::recover(&host, &mut Journal::open(&host)?)
    };
    let back = back().map_err(refused)?;
    if let Some(first) = back.refused.first() {
        let more = match back.refused.len() {
            1 => String::new(),
            many => format!(" (and {} more)", many - 1),
        };
        let what = format!(
            "{first}{more}; it is still noted, and `linnet tune restore` tries it again; all else has been put back"
        );
        return Err(refused(linnet_tune::Error::Format { path: "/run/linnet/tune/journal.json".into(), what }));
    }
    Ok((back.devices, back.left, back.gone, back.files, back.mounts))
}

/// Who has a file open: process, descriptor, its readahead in KiB, and why a tuner would leave it alone, if it would.
#[pyfunction]
pub fn tune_open_files(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Vec<OpenFile>> {
    let file = FileId::at(&path).map_err(refused)?;
    let look = || {
        let host = Host::default();
        let mut observer = observe::lister()?;
        let all = bdi::list(&host);
        let bdi = bdi::of_files(&all, file.dev);
        let device_kib = bdi.and_then(|bdi| bdi.value_kib(&host).ok()).unwrap_or(0);
        let mapped = observer.advised(true)?.get(&file).map(|advice| advice.why());
        let open = openfile::list(observer.as_mut(), &[file])?;
        // After the values: what a running tuner gives is in its journal before.
        let journal = Journal::open(&host)?;
        let original_kib = bdi.and_then(|bdi| journal.original_kib(&bdi.knob(&host))).unwrap_or(device_kib);
        let advice = |d: &Descriptor| d.advice_of_owner(device_kib, original_kib, &journal).or(mapped);
        Ok(open.iter().map(|d| (d.process, d.fd, d.value_kib, advice(d))).collect())
    };
    py.detach(look).map_err(refused)
}

/// What an event costs: nanoseconds of a read without a program, and what an empty one and the observer's add.
#[cfg(feature = "bpf")]
#[pyfunction]
#[pyo3(signature = (rounds = 9, reads = 200_000))]
pub fn tune_event_cost(py: Python<'_>, rounds: usize, reads: u32) -> PyResult<(f64, f64, f64)> {
    let cost = py.detach(|| observe::event_cost(rounds, reads)).map_err(refused)?;
    Ok((cost.bare_ns, cost.empty_ns, cost.ours_ns))
}

/// What an event costs; this build cannot observe any.
#[cfg(not(feature = "bpf"))]
#[pyfunction]
#[pyo3(signature = (rounds = 9, reads = 200_000))]
pub fn tune_event_cost(rounds: usize, reads: u32) -> PyResult<(f64, f64, f64)> {
    let _ = (rounds, reads);
    Err(TuneError::new_err("this build has no BPF observer (it was compiled without clang)"))
}
