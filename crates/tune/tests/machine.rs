// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pretended machine: its disks, mounts and processes as files below a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use linnet_tune::doctor::{Row, examine};
use linnet_tune::host::Host;

pub(crate) struct Machine {
    pub(crate) root: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let machine = Machine { root: tempfile::tempdir().expect("a directory") };
        machine.put("/sys/class/bdi/.keep", "");
        machine.put("/proc/self/mountinfo", "");
        machine
    }

    pub(crate) fn host(&self) -> Host {
        Host::below(self.root.path())
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        let path = self.root.path().join(name.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    pub(crate) fn append(&self, name: &str, text: &str) {
        let old = self.host().text(name).unwrap_or_default();
        self.put(name, &format!("{old}\n{text}\n"));
    }

    pub(crate) fn disk(&self, name: &str, dev: &str, kib: u32) {
        self.put(&format!("/sys/block/{name}/size"), "1000000");
        self.put(&format!("/sys/block/{name}/dev"), dev);
        self.put(&format!("/sys/block/{name}/queue/read_ahead_kb"), &kib.to_string());
        self.put(&format!("/sys/block/{name}/queue/rotational"), "0");
        fs::create_dir_all(self.root.path().join("sys/dev/block")).expect("made");
        symlink(format!("../../block/{name}"), self.root.path().join(format!("sys/dev/block/{dev}"))).expect("linked");
    }

    pub(crate) fn mount(&self, dev: &str, point: &str, fs: &str, source: &str, options: &str) {
        self.append("/proc/self/mountinfo", &format!("30 1 {dev} / {point} rw - {fs} {source} {options}"));
    }

    pub(crate) fn network(&self, dev: &str, point: &str, fs: &str, options: &str, kib: u32) {
        self.put(&format!("/sys/class/bdi/{dev}/read_ahead_kb"), &kib.to_string());
        self.mount(dev, point, fs, "server:/export", options);
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        examine(&self.host(), Duration::ZERO, || {}).expect("a report").rows
    }

    pub(crate) fn row(&self, target: &str) -> Row {
        self.rows().into_iter().find(|row| row.target == target).unwrap_or_else(|| panic!("no row of {target}"))
    }
}
