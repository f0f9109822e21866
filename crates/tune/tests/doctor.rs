// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doctor on a pretended machine: every kind of device and mount.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use linnet_tune::bdi;
use linnet_tune::doctor::{Row, examine};
use linnet_tune::host::Host;

use crate::machine::Machine;

#[test]
fn a_device_that_goes_away_while_it_is_watched_is_no_finding() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 128);
    machine.disk("sdb", "8:16", 128);
    let unplug = || fs::remove_dir_all(machine.root.path().join("sys/block/sdb")).expect("removed");
    let rows = examine(&machine.host(), Duration::ZERO, unplug).expect("a report").rows;
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
fn a_database_whose_file_system_only_a_container_has_mounted() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 65_536);
    machine.disk("sdb", "8:16", 65_536);
    machine.put("/sys/block/sdb/sdb1/partition", "1");
    machine.put("/sys/block/sdb/sdb1/dev", "8:17");
    machine.put("/sys/block/sdb/sdb2/partition", "2");
    machine.put("/sys/block/sdb/sdb2/dev", "8:18");
    machine.put("/sys/block/sdb/sdb2/holders/dm-0", "");
    let maps = |dev: &str| format!("7f0000000000-7f0040000000 r--s 00000000 {dev} 77 /var/lib/db/data.mdb\n");
    for (dev, disk) in [("08:00", "/dev/sda"), ("08:11", "/dev/sdb")] {
        machine.put("/proc/12/maps", &maps(dev));
        machine.put("/proc/12/comm", "reth\n");
        let row = machine.row(disk);
        assert_eq!(row.verdict, "high");
        assert!(row.reason.contains("reth (process 12) maps 1024 MiB of /var/lib/db/data.mdb"), "{}", row.reason);
    }
    machine.put("/proc/12/maps", "");
    assert_eq!(machine.row("/dev/sdb").reason, "file systems are on dm-0, whose value counts");
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
    assert!(rows[0].fix.is_empty());
}

/// A process that has counted so many major faults, and KiB read from devices where the kernel counts them.
fn process(machine: &Machine, process: u32, started: u64, faults: u64, read_kib: Option<u64>) {
    let stat = format!("{process} (my db) S 1 1 1 0 -1 0 10 0 {faults} 0 5 5 0 0 20 0 1 0 {started} 0 0");
    machine.put(&format!("/proc/{process}/stat"), &stat);
    if let Some(kib) = read_kib {
        machine.put(&format!("/proc/{process}/io"), &format!("rchar: 9\nread_bytes: {}\nwrite_bytes: 0\n", kib * 1024));
    }
}

/// The row of a disk with 128 KiB that reads `disk_kib`, of which process 9 has mapped a gigabyte. `with`: more of the
/// machine before the look, and what happens during it.
fn row_with_faults(disk_kib: u64, with: impl Fn(&Machine, bool)) -> Row {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 128);
    machine.mount("254:0", "/", "ext4", "/dev/vda", "rw");
    machine.put("/proc/9/maps", "7f0000000000-7f0040000000 r--s 00000000 fe:00 77 /db.mdb\n");
    machine.put("/proc/9/comm", "slapd");
    machine.put("/proc/vmstat", "pgmajfault 1000\n");
    machine.put("/proc/diskstats", " 254 0 vda 100 0 1000 0 0 0 0\n");
    with(&machine, false);
    let rows = examine(&machine.host(), Duration::ZERO, || {
        machine.put("/proc/vmstat", "pgmajfault 1100\n");
        machine.put("/proc/diskstats", &format!(" 254 0 vda 200 0 {} 0 0 0 0\n", 1000 + 2 * disk_kib));
        with(&machine, true);
    });
    rows.expect("a report").rows.remove(0)
}

#[test]
fn what_is_read_for_each_fault_makes_a_device_suspect() {
    let faults = |n, kib: Option<u64>| {
        move |machine: &Machine, later| {
            process(machine, 9, 7, 50 + if later { n } else { 0 }, kib.map(|k| 5 + if later { k } else { 0 }))
        }
    };
    for read_kib in [None, Some(12_800)] {
        let row = row_with_faults(12_800, faults(100, read_kib));
        assert_eq!(row.verdict, "suspect");
        assert!(row.reason.contains("each major fault reads 128 KiB"), "{}", row.reason);
        assert_eq!(row.fix, "sudo linnet tune readahead --watch --device /dev/vda");
    }
    let verdict = |disk_kib, n, kib| row_with_faults(disk_kib, faults(n, kib)).verdict;
    assert_eq!(verdict(12_800, 0, None), "ok", "others fault");
    assert_eq!(verdict(12_800, 19, None), "ok", "too few");
    assert_eq!(verdict(19_300, 100, None), "ok", "a fault reads no more than the value: most was read otherwise");
    assert_eq!(verdict(12_800, 100, Some(400)), "ok", "others read the disk");
    assert_eq!(verdict(400, 100, Some(12_800)), "ok", "its faults are of another device");
}

#[test]
fn faults_of_those_who_map_files_of_other_disks_or_ended_say_nothing() {
    let row = row_with_faults(12_800, |machine, later| {
        let maps = "7f0000000000-7f0040000000 r--s 00000000 fe:00 77 /db.mdb\n\
                    7e0000000000-7e0040000000 r--s 00000000 08:00 78 /other\n";
        machine.put("/proc/9/maps", maps);
        process(machine, 9, 7, if later { 150 } else { 50 }, None);
    });
    assert_eq!(row.verdict, "ok", "{row:?}");
    let row = row_with_faults(12_800, |machine, later| {
        process(machine, 9, if later { 8 } else { 7 }, if later { 150 } else { 50 }, None);
    });
    assert_eq!(row.verdict, "ok", "another process has its number: {row:?}");
}

#[test]
fn a_value_that_is_too_high_has_the_faults_of_those_who_map() {
    let machine = Machine::new();
    machine.disk("vda", "254:0", 65_536);
    machine.mount("254:0", "/", "ext4", "/dev/vda", "rw");
    machine.put("/proc/9/maps", "7f0000000000-7f0040000000 r--s 00000000 fe:00 77 /db.mdb\n");
    machine.put("/proc/vmstat", "pgmajfault 1000\n");
    machine.put("/proc/diskstats", " 254 0 vda 100 0 1000 0 0 0 0\n");
    process(&machine, 9, 7, 50, None);
    let reason = |faults| {
        let rows = examine(&machine.host(), Duration::ZERO, || {
            machine.put("/proc/vmstat", "pgmajfault 1400\n");
            machine.put("/proc/diskstats", " 254 0 vda 200 0 26600 0 0 0 0\n");
            process(&machine, 9, 7, faults, None);
        });
        rows.expect("a report").rows.remove(0).reason
    };
    assert!(reason(50).ends_with("reads up to 64 MiB"), "{}", reason(50));
    process(&machine, 9, 7, 50, None);
    machine.put("/proc/diskstats", " 254 0 vda 100 0 1000 0 0 0 0\n");
    let told = reason(75);
    assert!(told.ends_with("; each major fault reads 512 KiB now"), "{told}");
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

#[test]
fn the_value_that_mends_a_mount_with_small_reads_is_no_finding() {
    let machine = Machine::new();
    machine.network("0:45", "/mnt/a", "nfs4", "rw,vers=4.2,rsize=32768", 16);
    let row = machine.row("/mnt/a");
    assert_eq!((row.verdict, row.fix.as_str()), ("low", "echo 128 | sudo tee /sys/class/bdi/0:45/read_ahead_kb"));
    machine.put("/sys/class/bdi/0:45/read_ahead_kb", "128");
    assert_eq!(machine.row("/mnt/a").verdict, "ok");
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
        let rows =
            examine(&machine.host(), Duration::ZERO, || machine.put("/proc/self/mountstats", &reads(300, kib, ms)));
        rows.expect("a report").rows.remove(0)
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
    assert_eq!(row.source, "default of btrfs");
    assert!(row.fix.starts_with("echo 128 | sudo tee /sys/class/bdi/btrfs-1/read_ahead_kb && "), "{}", row.fix);
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
fn a_disk_counts_as_below_another_device_by_its_partitions_too() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 65_536);
    machine.put("/sys/block/sda/sda1/partition", "1");
    machine.put("/sys/block/sda/sda2/partition", "2");
    machine.put("/sys/block/sda/sda2/holders/dm-0", "");
    machine.put("/sys/block/sda/integrity/holders/none", "");
    let row = machine.row("/dev/sda");
    assert_eq!((row.verdict, row.reason.as_str()), ("ok", "file systems are on dm-0, whose value counts"));
    // Another partition has a file system of its own.
    symlink("../../block/sda/sda1", machine.root.path().join("sys/dev/block/8:1")).expect("linked");
    machine.mount("8:1", "/boot", "ext4", "/dev/sda1", "rw");
    assert_eq!(machine.row("/dev/sda").verdict, "high");
}

#[test]
fn the_disks_of_btrfs_do_not_count() {
    let machine = Machine::new();
    let root = machine.root.path();
    for (disk, dev) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")] {
        machine.disk(disk, dev, 65_536);
    }
    machine.put("/sys/block/sdb/sdb3/partition", "3");
    machine.put("/sys/devices/virtual/bdi/btrfs-1/read_ahead_kb", "4096");
    for device in ["sda", "sdb3"] {
        machine.put(&format!("/sys/fs/btrfs/5c-1/devices/{device}"), "");
    }
    symlink("../../../devices/virtual/bdi/btrfs-1", root.join("sys/fs/btrfs/5c-1/bdi")).expect("linked");
    machine.mount("0:33", "/srv", "btrfs", "/dev/sda", "rw");
    for disk in ["/dev/sda", "/dev/sdb"] {
        let row = machine.row(disk);
        assert_eq!((row.verdict, row.reason.as_str()), ("ok", "file systems are on btrfs-1, whose value counts"));
    }
    assert_eq!(machine.row("/dev/sdc").verdict, "high", "it is not one of them");
}

#[test]
fn what_the_kernel_chose_for_an_array_is_no_mistake_while_nothing_suffers() {
    let machine = Machine::new();
    machine.disk("md0", "9:0", 8192);
    machine.put("/sys/block/md0/queue/rotational", "1");
    machine.put("/sys/block/md0/queue/optimal_io_size", "4194304");
    machine.mount("9:0", "/raid", "xfs", "/dev/md0", "rw");
    let row = machine.row("/dev/md0");
    assert_eq!((row.verdict, row.source.as_str()), ("ok", "kernel default: twice the device's optimal I/O size"));
    machine.put("/proc/12/maps", "7f0000000000-7f0040000000 r--s 00000000 09:00 77 /raid/data.mdb\n");
    let row = machine.row("/dev/md0");
    let tune = "sudo linnet tune readahead --watch --device /dev/md0";
    assert_eq!((row.verdict, row.fix.as_str()), ("high", tune), "its scans keep what they need");
    machine.put("/sys/block/md0/queue/read_ahead_kb", "16384");
    let lower = "echo 8192 | sudo tee /sys/block/md0/queue/read_ahead_kb";
    assert_eq!(machine.row("/dev/md0").fix, format!("{lower} && {tune}"));
    machine.put("/proc/12/maps", "");
    let row = machine.row("/dev/md0");
    assert_eq!((row.verdict, row.fix.as_str()), ("high", lower), "somebody chose this one");
    machine.put("/sys/block/md0/queue/read_ahead_kb", "4096");
    assert_eq!(machine.row("/dev/md0").verdict, "ok", "less than the kernel gives it");
    machine.disk("sda", "8:0", 8192);
    machine.put("/sys/block/sda/queue/max_sectors_kb", "4096");
    assert_eq!(machine.row("/dev/sda").verdict, "high", "a flash drive has no such default");
    machine.put("/sys/block/sda/queue/rotational", "1");
    let row = machine.row("/dev/sda");
    assert_eq!((row.verdict, row.source.as_str()), ("ok", "kernel default: twice the hard disk's largest I/O"));
}

#[test]
fn a_value_beyond_32_bits_is_too_high_and_not_unreadable() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 128);
    machine.put("/sys/block/sda/queue/read_ahead_kb", "4294967296");
    let row = machine.row("/dev/sda");
    assert_eq!((row.verdict, row.value_kib), ("high", Some(u32::MAX)));
    assert_eq!(row.fix, "echo 128 | sudo tee /sys/block/sda/queue/read_ahead_kb");
    machine.put("/sys/block/sda/queue/read_ahead_kb", "many");
    assert_eq!(machine.row("/dev/sda").verdict, "unreadable");
}

/// A file system whose value the kernel calls by its type and a number.
fn typed(machine: &Machine, fs: &str, number: u32, dev: &str, options: &str, kib: u32) {
    machine.put(&format!("/sys/class/bdi/{fs}-{number}/read_ahead_kb"), &kib.to_string());
    machine.mount(dev, &format!("/mnt/{fs}-{number}"), fs, "//server/share", options);
}

#[test]
fn file_systems_whose_values_are_named_by_their_type() {
    let machine = Machine::new();
    typed(&machine, "cifs", 2, "0:60", "rw,rsize=4194304", 65_536);
    typed(&machine, "9p", 3, "0:61", "rw,cache=mmap,access=client", 124);
    typed(&machine, "ceph", 1, "0:62", "rw", 8192);
    machine.put("/sys/class/bdi/cifs-backup-1/read_ahead_kb", "128");
    let row = machine.row("/mnt/cifs-2");
    assert_eq!((row.kind, row.value_kib, row.verdict), ("other", Some(65_536), "high"));
    assert_eq!(row.fix, "echo 4096 | sudo tee /sys/class/bdi/cifs-2/read_ahead_kb");
    assert_eq!((machine.row("/mnt/9p-3").verdict, machine.row("/mnt/ceph-1").verdict), ("ok", "ok"), "own defaults");
    assert_eq!(machine.row("/mnt/ceph-1").source, "default of Ceph");
    machine.put("/sys/class/bdi/cifs-2/read_ahead_kb", "8192");
    assert_eq!(
        (machine.row("/mnt/cifs-2").verdict, machine.row("/mnt/cifs-2").source.as_str()),
        ("ok", "default of CIFS, by its rsize")
    );
    machine.put("/sys/class/bdi/9p-3/read_ahead_kb", "16");
    assert_eq!(machine.row("/mnt/9p-3").verdict, "low");
    // The same file system in a second place has the same value.
    machine.mount("0:60", "/mnt/again", "cifs", "//server/share", "rw");
    assert_eq!(machine.row("/mnt/cifs-2").mounts, ["/mnt/cifs-2", "/mnt/again"]);
}

#[test]
fn which_of_several_values_is_that_of_a_mount_is_not_guessed() {
    let machine = Machine::new();
    typed(&machine, "cifs", 2, "0:60", "rw,rsize=4194304", 8192);
    typed(&machine, "cifs", 3, "0:61", "rw,rsize=4194304", 8192);
    assert_eq!(machine.row("/mnt/cifs-3").verdict, "ok", "all have the same");
    for number in [2, 3] {
        machine.put(&format!("/sys/class/bdi/cifs-{number}/read_ahead_kb"), "65536");
    }
    let row = machine.row("/mnt/cifs-3");
    let both = "echo 4096 | sudo tee /sys/class/bdi/cifs-2/read_ahead_kb /sys/class/bdi/cifs-3/read_ahead_kb";
    assert_eq!((row.verdict, row.fix.as_str()), ("high", both));
    machine.put("/proc/12/maps", "7f0000000000-7f0040000000 r--s 00000000 00:3d 77 /mnt/cifs-3/data.mdb\n");
    let row = machine.row("/mnt/cifs-3");
    assert!(row.reason.contains("maps 1024 MiB") && row.fix == both, "the tuner would refuse it: {row:?}");
    machine.put("/sys/class/bdi/cifs-3/read_ahead_kb", "128");
    for target in ["/mnt/cifs-2", "/mnt/cifs-3"] {
        let row = machine.row(target);
        let why = format!("the value of {target} is one of cifs-2, cifs-3, and the kernel does not say which");
        assert_eq!((row.verdict, row.reason, row.value_kib), ("unreadable", why, None));
    }
    fs::remove_dir_all(machine.root.path().join("sys/class/bdi/cifs-3")).expect("removed");
    let of_two = bdi::list(&machine.host()).iter().map(|bdi| bdi.known().is_ok()).collect::<Vec<_>>();
    assert_eq!(of_two, [false, false], "one value cannot be that of two");
    machine.put("/sys/class/bdi/cifs-3/read_ahead_kb", "128");
    // One is mounted where we do not see it.
    machine.put("/proc/self/mountinfo", "");
    machine.mount("0:60", "/mnt/a", "cifs", "//server/share", "rw");
    assert_eq!(machine.row("/mnt/a").verdict, "unreadable");
}

#[test]
fn file_systems_that_need_no_readahead_have_no_row() {
    let machine = Machine::new();
    typed(&machine, "zfs", 1, "0:60", "rw", 0);
    typed(&machine, "zfs", 2, "0:61", "rw", 0);
    machine.mount("0:62", "/run", "tmpfs", "tmpfs", "rw");
    assert_eq!(machine.rows(), []);
}

#[test]
fn a_server_of_fuse_may_ask_for_no_readahead() {
    let machine = Machine::new();
    machine.network("0:60", "/run/user/1000/doc", "fuse.portal", "rw", 0);
    machine.network("0:61", "/mnt", "nfs4", "rw", 0);
    let row = machine.row("/run/user/1000/doc");
    assert_eq!((row.verdict, row.fix.as_str()), ("ok", ""));
    assert!(row.reason.contains("max_readahead"), "{}", row.reason);
    assert_eq!(machine.row("/mnt").verdict, "low");
}

#[test]
fn a_disk_that_may_be_one_of_zfs_has_no_verdict() {
    let machine = Machine::new();
    for (disk, dev) in [("sda", "8:0"), ("sdb", "8:16")] {
        machine.disk(disk, dev, 64);
        machine.put(&format!("/sys/block/{disk}/queue/rotational"), "1");
    }
    machine.mount("8:16", "/srv", "ext4", "/dev/sdb", "rw");
    assert_eq!(machine.row("/dev/sda").verdict, "low");
    machine.mount("0:50", "/tank", "zfs", "tank", "rw");
    assert_eq!((machine.row("/dev/sda").verdict, machine.row("/dev/sdb").verdict), ("ok", "low"));
}

#[test]
fn readahead_that_is_off_and_a_machine_without_sysfs() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 0);
    let row = machine.row("/dev/sda");
    assert_eq!((row.verdict, row.fix.as_str()), ("low", "echo 128 | sudo tee /sys/block/sda/queue/read_ahead_kb"));
    let empty = tempfile::tempdir().expect("a directory");
    let error = examine(&Host::below(empty.path()), Duration::ZERO, || {}).expect_err("nothing there").to_string();
    assert!(error.contains("sys/block is not there"), "{error}");
}
