// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which backing device a name means.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use linnet_tune::device::Rivals;
use linnet_tune::nfs::tune::NfsOptions;
use linnet_tune::{bdi, nfs};

use crate::machine::Machine;

#[test]
fn devices_are_found_by_every_name_that_an_operator_has() {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 128);
    machine.put("/sys/block/vda/vda1/partition", "1");
    machine.put("/sys/block/vda/vda1/dev", "254:1");
    symlink("../../block/vda/vda1", machine.root.path().join("sys/dev/block/254:1")).expect("linked");
    machine.mount("254:1", "/home", "ext4", "/dev/vda1", "rw");
    let host = machine.host();
    let all = bdi::list(&host);
    for name in ["vda", "/dev/vda", "/dev/vda1", "254:0", "/home", "/home/"] {
        let meant = bdi::meant(&host, &all, name).expect(name);
        let is_part = ["/dev/vda1", "/home", "/home/"].contains(&name);
        assert_eq!((meant.bdi.disk.as_deref(), meant.dev.is_some()), (Some("vda"), is_part), "{name}");
    }
    let error = bdi::find(&host, &all, "/dev/sdz").expect_err("no such disk").to_string();
    assert!(error.contains("/dev/sdz: no such device or mount"), "{error}");
    assert!(Path::new(&all[0].knob(&host)).ends_with("read_ahead_kb"));
}

#[test]
fn a_mount_point_means_the_mount_that_is_seen_there() {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 128);
    machine.disk("vdb", "254:16", 128);
    let find = |name: &str| {
        let host = machine.host();
        bdi::find(&host, &bdi::list(&host), name).map(|bdi| bdi.target()).map_err(|error| error.to_string())
    };
    machine.mount("254:0", "/", "ext4", "/dev/vda", "rw");
    machine.mount("254:0", "/mnt", "ext4", "/dev/vda", "rw");
    assert_eq!(find("/mnt").as_deref(), Ok("/dev/vda"));
    machine.mount("254:16", "/mnt", "xfs", "/dev/vdb", "rw");
    assert_eq!(find("/mnt/").as_deref(), Ok("/dev/vdb"), "the other one is hidden");
    machine.mount("0:40", "/mnt", "tmpfs", "tmpfs", "rw");
    let error = find("/mnt").expect_err("it is in memory");
    assert_eq!(error, "/mnt: what is mounted there is tmpfs, which has no readahead value of its own");
    let options = NfsOptions {
        mount: "/mnt".into(),
        dry_run: true,
        once: true,
        model: None,
        rsize: false,
        rivals: Rivals::Auto,
        backoff: Duration::ZERO,
    };
    let refused = |mount: &str| {
        let options = NfsOptions { mount: mount.into(), ..options.clone() };
        nfs::tune::run(&machine.host(), &options, &mut |_| false).expect_err("no NFS mount").to_string()
    };
    assert_eq!(refused("/mnt"), error, "the disk below is not advised");
    assert_eq!(refused("/"), "/: is no NFS mount but ext4; `linnet tune readahead --device /` tunes it");
}

#[test]
fn mounts_that_cannot_be_read_are_not_taken_for_none() {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 128);
    fs::remove_file(machine.root.path().join("proc/self/mountinfo")).expect("removed");
    let host = machine.host();
    let all = bdi::list(&host);
    assert_eq!(bdi::find(&host, &all, "/dev/vda").expect("a disk").target(), "/dev/vda");
    let error = bdi::find(&host, &all, "/srv").expect_err("unknown").to_string();
    assert!(error.contains("proc/self/mountinfo: cannot read"), "{error}");
}
