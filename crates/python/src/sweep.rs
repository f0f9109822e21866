// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a sweep over readahead values needs: the observer, its features, and a device whose value comes back.

use std::path::PathBuf;

use linnet_tune::bdi::{self, Bdi};
use linnet_tune::device::{Device, Rivals};
use linnet_tune::feature::{Features, NAMES};
use linnet_tune::host::Host;
use linnet_tune::journal::{Journal, Lock};
use linnet_tune::observe::{self, Counts, NUMBERS, Observer};
use linnet_tune::openfile::FileId;
use linnet_tune::rule::{DEFAULT_KIB, Decider, LADDER_KIB, Rule};
use linnet_tune::tuner::Options;
use linnet_tune::{Error, recover};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::numbers::{self, vector};
use crate::tune::{host, refused};

/// Names of the features, values that are set, and the kernel's default, in KiB.
#[pyfunction]
pub fn tune_ladder() -> (Vec<&'static str>, Vec<u32>, u32) {
    (NAMES.to_vec(), LADDER_KIB.to_vec(), DEFAULT_KIB)
}

type Rows<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<u32>>);

/// Features of windows (n, features) from their counters (n, counters), and the rule's value for each in KiB: the
/// kernel's default where the rule leaves the device's own, 0 where a window says nothing.
#[pyfunction]
pub fn tune_features<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = numbers::exact)] counts: PyReadonlyArray2<'py, u64>,
) -> PyResult<Rows<'py>> {
    if counts.shape()[1] != NUMBERS {
        let given = counts.shape()[1];
        return Err(PyValueError::new_err(format!("{given} counters in a window; the observer has {NUMBERS}")));
    }
    let rule = Rule::default();
    let (mut rows, mut kib) = (Vec::new(), Vec::new());
    for window in counts.as_array().rows() {
        let mut numbers = [0; NUMBERS];
        numbers.iter_mut().zip(window).for_each(|(to, from)| *to = *from);
        let features = Features::of(&Counts::from_array(numbers), true);
        rows.extend(features.row());
        kib.push(rule.decide(&features).map_or(0, |verdict| verdict.kib.unwrap_or(DEFAULT_KIB)));
    }
    let rows = vector(py, rows)?.reshape([kib.len(), NAMES.len()])?;
    Ok((rows, vector(py, kib)?))
}

/// The observer of `linnet tune readahead`. Needs root.
#[pyclass(module = "linnet", name = "TuneObserver", unsendable)]
pub struct PyTuneObserver(Box<dyn Observer>);

#[pymethods]
impl PyTuneObserver {
    /// Observes the file system that a file or directory is on, and no other one of its device: files of two may have the
    /// same inode number. Fails where it cannot see which pages are asked for.
    #[new]
    fn new(path: PathBuf) -> PyResult<PyTuneObserver> {
        let on = FileId::at(&path).map_err(refused)?;
        let observer = observe::best(&Host::default(), Some(on.dev)).map_err(refused)?;
        if !observer.sight().demands {
            return Err(refused(Error::Observer { what: observer.sight().limits.join("; ") }));
        }
        Ok(PyTuneObserver(observer))
    }

    /// What was counted since the last look: inode, control group and counters of each file that was read.
    fn look(&mut self) -> PyResult<Vec<(u64, u64, Vec<u64>)>> {
        let samples = self.0.look().map_err(refused)?;
        Ok(samples.iter().map(|s| (s.file.inode, s.cgroup, s.counts.to_array().to_vec())).collect())
    }

    /// Events that could not be counted.
    fn lost(&self) -> PyResult<u64> {
        Ok(self.0.lost().map_err(refused)?.total())
    }
}

struct Held {
    device: Device,
    journal: Journal,
    _lock: Lock,
}

/// A device's readahead value. Between `hold` and `restore` it may be set; the journal has every value, so that
/// `linnet tune restore` puts the first one back after a crash.
#[pyclass(module = "linnet", name = "TuneDevice", unsendable)]
pub struct PyTuneDevice {
    host: Host,
    bdi: Bdi,
    held: Option<Held>,
}

impl PyTuneDevice {
    fn held(&mut self) -> PyResult<&mut Held> {
        self.held.as_mut().ok_or_else(|| PyValueError::new_err("the device is not held: call hold() first"))
    }
}

#[pymethods]
impl PyTuneDevice {
    /// The device that `name` means: a disk, a partition, a mount point, or any directory on it.
    #[new]
    #[pyo3(signature = (name, root = None))]
    fn new(name: &str, root: Option<&str>) -> PyResult<PyTuneDevice> {
        let host = host(root);
        let all = bdi::list(&host);
        let bdi = bdi::find(&host, &all, name).or_else(|error| {
            let below = Some(host.path(name)).filter(|place| place.is_dir());
            let place = below.and_then(|place| FileId::at(&place).ok());
            let found = place.and_then(|place| bdi::of_files(&all, place.dev).cloned());
            found.ok_or(error)
        });
        let bdi = bdi.and_then(|bdi| bdi.known().map(|()| bdi)).map_err(refused)?;
        Ok(PyTuneDevice { bdi, host, held: None })
    }

    /// As the operator calls it.
    #[getter]
    fn target(&self) -> String {
        self.bdi.target()
    }

    /// The file that holds the value.
    #[getter]
    fn knob(&self) -> String {
        self.bdi.knob(&self.host)
    }

    /// Mount points of its file systems.
    #[getter]
    fn mounts(&self) -> Vec<String> {
        self.bdi.mounts.iter().map(|mount| mount.point.clone()).collect()
    }

    /// The value now, in KiB.
    #[getter]
    fn value_kib(&self) -> PyResult<u32> {
        self.bdi.value_kib(&self.host).map_err(refused)
    }

    /// Takes the tuner's lock and puts back what an earlier run left. A running tuner is refused.
    fn hold(&mut self) -> PyResult<()> {
        let take = || {
            let lock = Lock::take(&self.host)?;
            let mut journal = Journal::open(&self.host)?;
            if !journal.is_empty() {
                recover::recover(&self.host, &mut journal)?;
            }
            let knob = self.bdi.knob(&self.host);
            let device = Device::open(&self.host, &knob, Rivals::Auto, Options::default().backoff)?;
            Ok(Held { device, journal, _lock: lock })
        };
        self.held = Some(take().map_err(refused)?);
        Ok(())
    }

    /// Sets the value and gives the one that stands, which is less where the device bounds it.
    fn set(&mut self, kib: u32) -> PyResult<u32> {
        let held = self.held()?;
        held.device.set(kib, &mut held.journal).map_err(refused)
    }

    /// Puts the first value back; the device stays held.
    fn put_back(&mut self) -> PyResult<bool> {
        let held = self.held()?;
        held.device.restore(&mut held.journal).map_err(refused)
    }

    /// Puts the first value back, unless somebody else set another meanwhile, and lets the lock go.
    fn restore(&mut self) -> PyResult<()> {
        if let Some(mut held) = self.held.take() {
            held.device.restore(&mut held.journal).map_err(refused)?;
        }
        Ok(())
    }
}
