// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the doctor says that a value came from, for every place that sets values.

use linnet_tune::journal;

use crate::machine::Machine;

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
fn a_profile_of_tuned_has_the_values_of_those_that_it_includes() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 4096);
    let profile = |place: &str, text: &str| machine.put(&format!("{place}/tuned.conf"), text);
    let comes_from = |profile: &str, place: &str| {
        let source = machine.row("/dev/sda").source;
        assert_eq!(source, format!("tuned profile {profile} ({place}/tuned.conf)"));
    };
    machine.put("/etc/tuned/active_profile", "mine\n");
    profile("/etc/tuned/mine", "[main]\nsummary=x\ninclude = -site, base\n[disk]\nelevator=none\n");
    profile("/usr/lib/tuned/base", "[main]\ninclude=throughput\n[variables]\ninclude=/etc/tuned/disk\n");
    profile("/usr/lib/tuned/throughput", "[disk]\nreadahead=>4096\n");
    profile("/usr/lib/tuned/disk", "[disk]\nreadahead=512\n");
    comes_from("mine", "/usr/lib/tuned/throughput");
    profile("/usr/lib/tuned/base", "[main]\ninclude=throughput\n[disk]\nreadahead=8192s\n");
    comes_from("mine", "/usr/lib/tuned/base");
    // Its own value is the last one, and that of a later profile comes after it.
    profile("/etc/tuned/mine", "[main]\ninclude=base\n[disk]\nreadahead=256\n");
    assert!(machine.row("/dev/sda").source.starts_with("unknown"), "{}", machine.row("/dev/sda").source);
    machine.put("/etc/tuned/active_profile", "mine throughput\n");
    profile("/usr/lib/tuned/base", "[disk]\nreadahead=8192s\n");
    comes_from("throughput", "/usr/lib/tuned/throughput");
    // One that changes the profile of its own name includes it; a circle ends.
    machine.put("/etc/tuned/active_profile", "throughput\n");
    profile("/etc/tuned/throughput", "[main]\ninclude=throughput\n");
    profile("/usr/lib/tuned/throughput", "[main]\ninclude=throughput\n[disk]\nreadahead=4096\n");
    comes_from("throughput", "/usr/lib/tuned/throughput");
}

#[test]
fn a_udev_rule_sets_what_it_assigns_and_not_what_it_asks_for() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", 777);
    machine.disk("sdb", "8:16", 512);
    let source = |name: &str| machine.row(name).source;
    let rule = |asks: &str| {
        let line = format!("KERNELS==\"nvme*\", KERNEL==\"sdb\", {asks}, ATTR{{queue/read_ahead_kb}}=\"512\"\n");
        machine.put("/usr/lib/udev/rules.d/60-a.rules", &line);
    };
    for asks in ["ATTR{queue/read_ahead_kb}==\"777\"", "ATTR{queue/read_ahead_kb} != \"777\""] {
        rule(asks);
        assert_eq!(source("/dev/sdb"), "udev rule /usr/lib/udev/rules.d/60-a.rules:1", "{asks}");
        machine.put("/sys/block/sda/queue/read_ahead_kb", "512");
        assert!(source("/dev/sda").starts_with("unknown"), "it is for another disk: {}", source("/dev/sda"));
        machine.put("/sys/block/sda/queue/read_ahead_kb", "777");
        assert!(source("/dev/sda").starts_with("unknown"), "{asks}: {}", source("/dev/sda"));
    }
    machine.put(
        "/usr/lib/udev/rules.d/60-b.rules",
        "ATTR{queue/read_ahead_kb}==\"777\", ATTR{queue/nr_requests}=\"64\"\n",
    );
    assert!(source("/dev/sda").starts_with("unknown"), "{}", source("/dev/sda"));
    machine.put("/etc/udev/rules.d/60-a.rules", "# not here\n");
    assert!(source("/dev/sdb").starts_with("unknown"), "that file is hidden: {}", source("/dev/sdb"));
}
