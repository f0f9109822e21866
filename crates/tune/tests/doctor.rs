// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doctor on a pretended machine: every kind of device and mount, and every place that sets values.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use linnet_tune::doctor::{Row, examine};
use linnet_tune::host::Host;
use linnet_tune::{bdi, journal};

struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { root: tempfile::tempdir().expect("a directory") };
        machine.put("/sys/class/bdi/.keep", "");
        machine.put("/proc/self/mountinfo", "");
        machine
    }

    fn host(&self) -> Host {
        Host::below(self.root.path())
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.root.path().join(name.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn append(&self, name: &str, text: &str) {
        let old = self.host().text(name).unwrap_or_default();
        self.put(name, &format!("{old}\n{text}\n"));
    }

    fn disk(&self, name: &str, dev: &str, kib: u32) {
        self.put(&format!("/sys/block/{name}/size"), "1000000");
        self.put(&format!("/sys/block/{name}/dev"), dev);
        self.put(&format!("/sys/block/{name}/queue/read_ahead_kb"), &kib.to_string());
        self.put(&format!("/sys/block/{name}/queue/rotational"), "0");
        fs::create_dir_all(self.root.path().join("sys/dev/block")).expect("made");
        symlink(format!("../../block/{name}"), self.root.path().join(format!("sys/dev/block/{dev}"))).expect("linked");
    }

    fn mount(&self, dev: &str, point: &str, fs: &str, source: &str, options: &str) {
        self.append("/proc/self/mountinfo", &format!("30 1 {dev} / {point} rw - {fs} {source} {options}"));
    }

    fn network(&self, dev: &str, point: &str, fs: &str, options: &str, kib: u32) {
        self.put(&format!("/sys/class/bdi/{dev}/read_ahead_kb"), &kib.to_string());
        self.mount(dev, point, fs, "server:/export", options);
    }

    fn rows(&self) -> Vec<Row> {
        examine(&self.host(), || {}).expect("a report")
    }

    fn row(&self, target: &str) -> Row {
        self.rows().into_iter().find(|row| row.target == target).unwrap_or_else(|| panic!("no row of {target}"))
    }
}

#[test]
fn a_device_that_goes_away_while_it_is_watched_is_no_finding() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 128);
    machine.disk("sdb", "8:16", 128);
    let unplug = || fs::remove_dir_all(machine.root.path().join("sys/block/sdb")).expect("removed");
    let rows = examine(&machine.host(), unplug).expect("a report");
    assert_eq!(rows.iter().map(|row| (&row.target[..], row.verdict)).collect::<Vec<_>>(), [("/dev/sda", "ok")]);
}

#[test]
fn the_line_that_mends_quotes_what_any_user_may_have_chosen() {
    let machine = Machine::new();
    machine.network("0:45", "/home/u/it's;\\040$(reboot)", "nfs4", "rsize=1048576", 65_536);
    machine.put("/proc/12/maps", "7f0000000000-7f0040000000 r--s 00000000 00:2d 77 /home/u/it's; $(reboot)/f\n");
    machine.put("/proc/12/comm", "reader\n");
    let row = machine.row("/home/u/it's; $(reboot)");
    assert!(row.fix.ends_with(r"sudo linnet tune nfs '/home/u/it'\''s; $(reboot)'"), "{}", row.fix);
}

#[test]
fn a_cloud_image_s_64_mib_under_a_mapped_database() {
    let machine = Machine::new();
    machine.disk("nvme0n1", "259:0", 65_536);
    machine.mount("259:0", "/data", "ext4", "/dev/nvme0n1", "rw");
    let rule = "# tuning\nSUBSYSTEM==\"block\", KERNEL==\"nvme*n*\", ATTR{queue/read_ahead_kb}=\"65536\"\n";
    machine.put("/etc/udev/rules.d/70-image.rules", rule);
    machine.put("/proc/12/maps", "7f0000000000-7f0040000000 r--s 00000000 103:00 77 /data/db/data.mdb\n");
    machine.put("/proc/12/comm", "reth\n");
    let row = machine.row("/dev/nvme0n1");
    assert_eq!((row.kind, row.value_kib, row.verdict), ("block", Some(65_536), "high"));
    assert_eq!(row.source, "udev rule /etc/udev/rules.d/70-image.rules:2");
    assert!(row.reason.contains("reth (process 12) maps 1024 MiB of /data/db/data.mdb"), "{}", row.reason);
    assert!(row.fix.starts_with("echo 128 | sudo tee /sys/block/nvme0n1/queue/read_ahead_kb && "), "{}", row.fix);
    assert!(row.fix.ends_with("--device /dev/nvme0n1"), "{}", row.fix);
    assert_eq!(row.mounts, ["/data"]);
}

#[test]
fn a_device_with_the_default_and_nothing_on_it_is_ok() {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 128);
    machine.disk("loop0", "7:0", 128);
    machine.put("/sys/block/loop0/size", "0");
    let rows = machine.rows();
    assert_eq!(rows.len(), 1, "a loop device without a file is no device: {rows:?}");
    assert_eq!((rows[0].verdict, rows[0].source.as_str()), ("ok", "kernel default"));
    assert!(!rows[0].is_finding() && rows[0].fix.is_empty());
}

#[test]
fn what_is_read_for_each_fault_makes_a_device_suspect() {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 128);
    machine.mount("254:0", "/", "ext4", "/dev/vda", "rw");
    machine.put("/proc/9/maps", "7f0000000000-7f0040000000 r--s 00000000 fe:00 77 /db.mdb\n");
    machine.put("/proc/9/comm", "slapd");
    machine.put("/proc/vmstat", "pgmajfault 1000\n");
    machine.put("/proc/diskstats", " 254 0 vda 100 0 1000 0 0 0 0\n");
    let rows = examine(&machine.host(), || {
        machine.put("/proc/vmstat", "pgmajfault 1100\n");
        machine.put("/proc/diskstats", " 254 0 vda 200 0 26600 0 0 0 0\n");
    });
    let row = &rows.expect("a report")[0];
    assert_eq!(row.verdict, "suspect");
    assert!(row.reason.contains("each major fault reads 128 KiB"), "{}", row.reason);
    assert_eq!(row.fix, "sudo linnet tune readahead --watch --device /dev/vda");
    // The same without faults is no reason to worry.
    assert_eq!(machine.row("/dev/vda").verdict, "ok");
}

#[test]
fn network_mounts_too_small_and_too_large() {
    let machine = Machine::new();
    machine.network("0:45", "/mnt/a", "nfs4", "rw,vers=4.2,rsize=1048576,wsize=1048576", 128);
    machine.network("0:46", "/mnt/b", "nfs", "rw,rsize=1048576", 15_360);
    machine.network("0:47", "/mnt/c", "nfs", "rw,rsize=131072", 1024);
    machine.network("0:48", "/mnt/d", "fuse.blobfuse2", "rw", 128);
    let low = machine.row("/mnt/a");
    assert_eq!((low.verdict, low.kind, low.source.as_str()), ("low", "nfs", "kernel default"));
    assert_eq!(low.fix, "echo 2048 | sudo tee /sys/class/bdi/0:45/read_ahead_kb");
    let high = machine.row("/mnt/b");
    assert_eq!((high.verdict, high.source.as_str()), ("high", "default of older kernels: 15 times rsize"));
    assert_eq!(high.fix, "echo 2048 | sudo tee /sys/class/bdi/0:46/read_ahead_kb");
    assert_eq!(machine.row("/mnt/c").verdict, "ok");
    assert_eq!((machine.row("/mnt/d").kind, machine.row("/mnt/d").verdict), ("fuse", "ok"));
}

fn reads(calls: u64, kib: u64, ms: u64) -> String {
    format!(
        "device server:/export mounted on /mnt/a with fstype nfs4 statvers=1.1\n\tREAD: {calls} {calls} 0 0 {} 0 {} 0 0\n",
        calls * kib * 1024,
        calls * ms,
    )
}

#[test]
fn a_scan_over_a_long_way_needs_more_than_the_default() {
    let verdict = |kib: u64, ms: u64| {
        let machine = Machine::new();
        machine.network("0:45", "/mnt/a", "nfs4", "rw,vers=4.2,rsize=131072", 128);
        machine.put("/proc/self/mountstats", &reads(100, kib, ms));
        let rows = examine(&machine.host(), || machine.put("/proc/self/mountstats", &reads(300, kib, ms)));
        rows.expect("a report").remove(0)
    };
    let far = verdict(128, 5);
    assert_eq!((far.verdict, far.fix.as_str()), ("low", "sudo linnet tune nfs /mnt/a"));
    assert!(
        far.reason
            .starts_with("a read of the server takes 5.0 ms, so that 128 KiB of readahead give a scan about 26 MB/s")
    );
    assert_eq!(verdict(128, 0).verdict, "ok", "the way is short");
    assert_eq!(verdict(8, 5).verdict, "ok", "small reads are no scan");
}

#[test]
fn the_largest_value_that_the_tuner_sets_is_not_too_high() {
    let machine = Machine::new();
    machine.network("0:45", "/mnt/a", "nfs4", "rw,rsize=1048576", 8192);
    machine.network("0:46", "/mnt/b", "nfs4", "rw,rsize=1048576", 16_384);
    assert_eq!((machine.row("/mnt/a").verdict, machine.row("/mnt/b").verdict), ("ok", "high"));
}

#[test]
fn btrfs_has_a_value_of_its_own() {
    let machine = Machine::new();
    machine.disk("sdb", "8:16", 128);
    machine.put("/sys/devices/virtual/bdi/btrfs-1/read_ahead_kb", "4096");
    let root = machine.root.path();
    symlink("../../devices/virtual/bdi/btrfs-1", root.join("sys/class/bdi/btrfs-1")).expect("linked");
    machine.put("/sys/fs/btrfs/5c-1/devices/sdb", "");
    symlink("../../../devices/virtual/bdi/btrfs-1", root.join("sys/fs/btrfs/5c-1/bdi")).expect("linked");
    machine.mount("0:33", "/srv", "btrfs", "/dev/sdb", "rw");
    assert_eq!(machine.row("/srv").verdict, "ok", "its own default, and nothing suffers");
    machine.put("/proc/12/maps", "7f0000000000-7f0040000000 r--s 00000000 00:21 77 /srv/data.mdb\n");
    let row = machine.row("/srv");
    assert_eq!((row.kind, row.value_kib, row.verdict), ("btrfs", Some(4096), "high"));
    assert_eq!(row.source, "default of btrfs: 4 MiB for each disk");
    assert!(row.fix.starts_with("echo 128 | sudo tee /sys/class/bdi/btrfs-1/read_ahead_kb && "), "{}", row.fix);
}

#[test]
fn other_places_that_set_values() {
    let machine = Machine::new();
    for (disk, dev, kib) in [("sda", "8:0", 4096), ("sdb", "8:16", 2048), ("sdc", "8:32", 777), ("sdd", "8:48", 8)] {
        machine.disk(disk, dev, kib);
    }
    machine.put("/etc/tuned/active_profile", "throughput-performance\n");
    machine.put("/usr/lib/tuned/throughput-performance/tuned.conf", "[disk]\nreadahead=>4096\n");
    let point = "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc-7/mount";
    machine.mount("8:32", point, "ext4", "/dev/sdc", "rw");
    machine.put("/proc/sys/kernel/random/boot_id", "b");
    let host = machine.host();
    let mut journal = journal::Journal::open(&host).expect("empty");
    journal.note_device("/sys/block/sdd/queue/read_ahead_kb", 128, 8);
    journal.save().expect("saved");
    let source = |name: &str| machine.row(name).source;
    assert!(source("/dev/sda").starts_with("tuned profile throughput-performance"));
    assert!(source("/dev/sdb").ends_with("4096 there was taken for sectors"), "{}", source("/dev/sdb"));
    assert_eq!(source("/dev/sdc"), format!("probably the storage driver that mounted {point}"));
    assert_eq!(source("/dev/sdd"), "linnet tune (before: 128 KiB)");
}

#[test]
fn a_disk_below_another_device_does_not_count() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 65_536);
    machine.put("/sys/block/sda/holders/dm-0", "");
    let row = machine.row("/dev/sda");
    assert_eq!((row.verdict, row.reason.as_str()), ("ok", "file systems are on dm-0, whose value counts"));
}

#[test]
fn readahead_that_is_off_and_a_machine_without_sysfs() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 0);
    let row = machine.row("/dev/sda");
    assert_eq!((row.verdict, row.fix.as_str()), ("low", "echo 128 | sudo tee /sys/block/sda/queue/read_ahead_kb"));
    let empty = tempfile::tempdir().expect("a directory");
    let error = examine(&Host::below(empty.path()), || {}).expect_err("nothing there").to_string();
    assert!(error.contains("sys/block is not there"), "{error}");
}

#[test]
fn devices_are_found_by_every_name_that_an_operator_has() {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 128);
    machine.put("/sys/block/vda/vda1/partition", "1");
    symlink("../../block/vda/vda1", machine.root.path().join("sys/dev/block/254:1")).expect("linked");
    machine.mount("254:1", "/home", "ext4", "/dev/vda1", "rw");
    let host = machine.host();
    let all = bdi::list(&host);
    for name in ["vda", "/dev/vda", "/dev/vda1", "254:0", "/home", "/home/"] {
        assert_eq!(bdi::find(&host, &all, name).expect(name).disk.as_deref(), Some("vda"), "{name}");
    }
    let error = bdi::find(&host, &all, "/dev/sdz").expect_err("no such disk").to_string();
    assert!(error.contains("/dev/sdz: no such device or mount"), "{error}");
    assert!(Path::new(&all[0].knob(&host)).ends_with("read_ahead_kb"));
}
