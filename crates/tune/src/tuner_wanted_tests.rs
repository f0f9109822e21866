// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests what is tuned where a device is named, while mounts come and go.

use super::*;

/// Sees nothing, and notes which file systems it was to observe.
#[derive(Default)]
struct Filtered {
    sight: Sight,
    only: Option<Dev>,
    began: Vec<Option<Dev>>,
}

impl Observer for Filtered {
    fn sight(&self) -> &Sight {
        &self.sight
    }
    fn look(&mut self) -> Result<Vec<Sample>> {
        Ok(Vec::new())
    }
    fn descriptors(&mut self, files: &[FileId]) -> Result<Vec<Descriptor>> {
        Ok(files.iter().map(|file| of_size(*file, 900)).collect())
    }
    fn watch_only(&mut self, only: Option<Dev>) -> Result<bool> {
        let is_seen = self.only.is_none() || self.only == only;
        if !is_seen {
            self.only = only;
            self.began.push(only);
        }
        Ok(!is_seen)
    }
}

/// A machine with the disk sda of two partitions and a value of 512 KiB, and values of mounts without a disk.
fn machine() -> (tempfile::TempDir, Host) {
    let (root, host) = host();
    let put = |name: &str, text: &str| host.replace(name, text).expect("written");
    put("/sys/block/sda/size", "1000");
    put("/sys/dev/block/8:0/diskseq", "5");
    for (part, dev) in [("sda1", "8:1"), ("sda2", "8:2")] {
        put(&format!("/sys/block/sda/{part}/partition"), "1");
        put(&format!("/sys/block/sda/{part}/dev"), dev);
        std::os::unix::fs::symlink(format!("../../block/sda/{part}"), host.path(format!("/sys/dev/block/{dev}")))
            .expect("linked");
    }
    for name in ["8:0", "0:45", "0:52"] {
        put(&format!("/sys/class/bdi/{name}/read_ahead_kb"), "512");
    }
    (root, host)
}

const DEV_DATA: Dev = Dev { major: 8, minor: 1 };
const DATA: &str = "8:1 / /data rw - ext4 /dev/sda1 rw";
const HOME: &str = "8:2 / /home rw - ext4 /dev/sda2 rw";

fn mount(host: &Host, lines: &[&str]) {
    let text: Vec<String> = lines.iter().map(|line| format!("30 1 {line}")).collect();
    host.replace("/proc/self/mountinfo", &text.join("\n")).expect("written");
}

fn options(device: &str, scope: Scope) -> Options {
    Options { dry_run: true, device: Some(device.into()), scope, ..Options::default() }
}

/// What is told in the time from one look to another, in quarters of a second, while files of these are read at random.
fn told(tuner: &mut Tuner, looks: std::ops::Range<u64>, devs: &[(u32, u32)]) -> Vec<String> {
    let file = |&(major, minor): &(u32, u32)| FileId { dev: Dev { major, minor }, ..FILE };
    let samples: Vec<Sample> =
        devs.iter().map(|dev| Sample { file: file(dev), ..random(Reader::Own, 200, 32) }).collect();
    let mut events = Vec::new();
    for look in looks {
        events.extend(tuner.tick(Duration::from_millis(250 * look), &samples).expect("a look"));
    }
    let word = |event: Event| match event.kind {
        "note" => event.why,
        kind => format!("{kind} {}{}", event.target, if event.file.is_some() { ", a file" } else { "" }),
    };
    events.into_iter().map(word).collect()
}

#[test]
fn a_partition_or_mount_point_means_its_file_system_and_not_the_disk() {
    let (_root, host) = machine();
    mount(&host, &[DATA, HOME, HOME]);
    let rule = Rule::default();
    for (name, files, notes) in [("/dev/sda2", 1, 1), ("/home", 1, 1), ("/dev/sda", 2, 0)] {
        let (mut observer, mut said) = (Filtered { sight: all_seen(), ..Filtered::default() }, Vec::new());
        let mut tell = |event: &Event| {
            said.push(event.why.clone());
            true
        };
        let mut tuner =
            Tuner::start(&host, options(name, Scope::Both), &rule, &mut observer, &mut tell).expect("started");
        let told = told(&mut tuner, 4..14, &[(8, 1), (8, 2)]);
        let of_files = told.iter().filter(|line| *line == "decision /dev/sda, a file").count();
        let of_disk = told.iter().filter(|line| *line == "decision /dev/sda").count();
        assert_eq!((of_files, of_disk > 0, said.len()), (files, notes == 0, notes), "{name}: {told:?} {said:?}");
        let shares = format!("{name} shares the value of /dev/sda with /data");
        assert!(said.iter().all(|why| why.starts_with(&shares)), "{said:?}");
        let devices = Tuner::start(&host, options(name, Scope::Devices), &rule, &mut observer, &mut |_| true);
        let refused = devices.err().map(|error| error.to_string());
        assert_eq!(refused.is_some_and(|why| why.starts_with(&shares)), notes > 0, "{name}: nothing could be set");
    }
    mount(&host, &[HOME]);
    let mut observer = Filtered { sight: all_seen(), ..Filtered::default() };
    let mut tuner =
        Tuner::start(&host, options("/home", Scope::Both), &rule, &mut observer, &mut |_| true).expect("started");
    let told = told(&mut tuner, 4..14, &[(8, 2)]);
    assert!(told.contains(&"decision /dev/sda".to_owned()), "nothing else has the disk's value: {told:?}");
}

#[test]
fn a_file_system_that_is_mounted_later_is_observed_too() {
    let (_root, host) = machine();
    let nfs = |dev: &str| format!("{dev} / /mnt rw - nfs4 server:/ rw,rsize=65536");
    mount(&host, &[&nfs("0:45")]);
    let rule = Rule::default();
    let only = only_dev(&host, &options("/mnt", Scope::Both)).expect("found");
    assert_eq!(only, Some(Dev { major: 0, minor: 45 }));
    let mut observer = Filtered { sight: all_seen(), only, ..Filtered::default() };
    let mut tuner =
        Tuner::start(&host, options("/mnt", Scope::Both), &rule, &mut observer, &mut |_| true).expect("started");
    assert!(told(&mut tuner, 39..42, &[]).is_empty());
    mount(&host, &[&nfs("0:45"), &nfs("0:52")]);
    let told = told(&mut tuner, 82..86, &[]);
    assert_eq!(told, ["other file systems of /mnt are mounted now than before, and are tuned"]);
    drop(tuner);
    assert_eq!(observer.began, [None]);
}

#[test]
fn files_of_a_partition_that_only_a_container_has_mounted_are_tuned() {
    let (_root, host) = machine();
    mount(&host, &[DATA]);
    let rule = Rule::default();
    let only = |name: &str| only_dev(&host, &options(name, Scope::Both)).expect("found");
    assert_eq!(
        (only("/dev/sda"), only("/data")),
        (None, Some(DEV_DATA)),
        "its other partition may be mounted anywhere"
    );
    let all = Options { dry_run: true, scope: Scope::Files, ..Options::default() };
    for options in [options("/dev/sda", Scope::Files), options("/dev/sda2", Scope::Files), all] {
        let mut observer = Filtered { sight: all_seen(), ..Filtered::default() };
        let mut tuner = Tuner::start(&host, options, &rule, &mut observer, &mut |_| true).expect("started");
        assert_eq!(told(&mut tuner, 4..14, &[(8, 2)]), ["decision /dev/sda, a file"]);
    }
}

#[test]
fn a_file_system_without_a_disk_that_only_a_container_has_mounted_is_told_once() {
    let (_root, host) = machine();
    mount(&host, &[DATA]);
    host.replace("/sys/class/bdi/8:2-fuseblk/read_ahead_kb", "128").expect("written");
    let rule = Rule::default();
    // 0:60 has no readahead: it is in memory.
    for (name, notes) in [(None, 2), (Some("/dev/sda"), 0)] {
        let mut observer = Filtered { sight: all_seen(), ..Filtered::default() };
        let device = name.map(str::to_owned);
        let options = Options { dry_run: true, device, ..Options::default() };
        let mut tuner = Tuner::start(&host, options, &rule, &mut observer, &mut |_| true).expect("started");
        let told = told(&mut tuner, 4..60, &[(0, 45), (0, 60), (8, 2)]);
        assert_eq!(told.len(), notes, "{told:?}");
        for (why, dev) in told.iter().zip(["0:45", "8:2"]) {
            assert!(why.starts_with(&format!("files of file system {dev} are read and keep their values")), "{why}");
        }
    }
}

#[test]
fn a_mount_that_comes_back_under_another_number_is_found_again() {
    let (_root, host) = machine();
    let nfs = |dev: &str, point: &str| format!("{dev} / {point} rw - nfs4 server:/ rw,rsize=65536");
    mount(&host, &[&nfs("0:45", "/mnt")]);
    let rule = Rule::default();
    let only = only_dev(&host, &options("/mnt", Scope::Both)).expect("found");
    let mut observer = Filtered { sight: all_seen(), only, ..Filtered::default() };
    let mut tuner =
        Tuner::start(&host, options("/mnt", Scope::Files), &rule, &mut observer, &mut |_| true).expect("started");
    assert_eq!(told(&mut tuner, 4..8, &[(0, 45)]), ["decision /mnt, a file"]);
    // Another mount gets its number.
    mount(&host, &[&nfs("0:45", "/other")]);
    let gone = told(&mut tuner, 50..90, &[(0, 45)]);
    let why =
        "nothing is tuned until /mnt is there again: /mnt: no such device or mount; `linnet tune doctor` lists them";
    assert_eq!(gone, [why], "once, and the other one is not tuned");
    mount(&host, &[&nfs("0:45", "/other"), &nfs("0:52", "/mnt")]);
    let back = told(&mut tuner, 130..134, &[(0, 45), (0, 52)]);
    assert_eq!(back, ["/mnt is there again, as 0:52", "decision /mnt, a file"]);
    mount(&host, &[&nfs("0:45", "/mnt"), &nfs("0:52", "/other")]);
    assert_eq!(told(&mut tuner, 180..181, &[]), ["/mnt is 0:45 now and no longer 0:52"]);
    mount(&host, &[HOME, "8:2 / /mnt rw - ext4 /dev/sda2 rw"]);
    let other = told(&mut tuner, 230..240, &[(8, 2)]);
    assert_eq!(other, ["nothing is tuned until /mnt is there again: /mnt: is of another kind, block and not nfs"]);
    drop(tuner);
    assert_eq!(observer.began, [Some(Dev { major: 0, minor: 52 }), Some(Dev { major: 0, minor: 45 })]);
}

#[test]
fn a_mount_over_an_nfs_mount_is_tuned_with_the_one_below() {
    let (_root, host) = machine();
    let nfs = |dev: &str| format!("{dev} / /home rw - nfs4 server:/ rw,rsize=65536");
    mount(&host, &[HOME, &nfs("0:45")]);
    let rule = Rule::default();
    let mut observer = Filtered { sight: all_seen(), ..Filtered::default() };
    let mut tuner =
        Tuner::start(&host, options("/home", Scope::Files), &rule, &mut observer, &mut |_| true).expect("started");
    mount(&host, &[HOME, &nfs("0:45"), &nfs("0:52")]);
    let told = told(&mut tuner, 50..54, &[(0, 45), (0, 52), (8, 2)]);
    assert_eq!(told, ["decision /home, a file", "decision /home, a file"], "but not the disk that both hide");
}

#[test]
fn another_disk_of_the_same_number_is_told() {
    let (_root, host) = machine();
    mount(&host, &[DATA]);
    let rule = Rule::default();
    let mut observer = Filtered { sight: all_seen(), ..Filtered::default() };
    let mut tuner =
        Tuner::start(&host, options("sda", Scope::Both), &rule, &mut observer, &mut |_| true).expect("started");
    host.replace("/sys/dev/block/8:0/diskseq", "9").expect("written");
    assert_eq!(told(&mut tuner, 50..52, &[]), ["sda is 8:0 of disk 9 now and no longer 8:0 of disk 5"]);
}
