// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a readahead value came from. Nothing records it, so this compares the value with what each known place would
//! have set: Linnet's journal, udev rules, the profile of tuned, mount options, drivers of container storage, and the
//! kernel's own defaults. The first that fits is named.

use std::collections::HashSet;

use crate::bdi::{Bdi, Kind};
use crate::doctor::kernel;
use crate::host::Host;
use crate::journal::Journal;

/// Places of udev rules, the strongest first: a file hides those of its name in later ones.
const RULES: [&str; 5] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
];

/// A place that sets readahead values.
struct Setting {
    kib: u32,
    place: String,
}

/// Everything on the machine that sets readahead, read once for all devices.
pub struct Origins {
    rules: Vec<(Vec<String>, Setting)>,
    tuned: Tuned,
    nfs_conf: Option<Setting>,
    ours: Vec<(String, u32, Vec<u32>)>,
}

/// Shell patterns as udev matches them: `*`, `?` and `[...]`; alternatives stand between bars.
pub fn matches(pattern: &str, name: &str) -> bool {
    fn one(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some(b'*'), _) => one(&pattern[1..], name) || (!name.is_empty() && one(pattern, &name[1..])),
            (Some(b'?'), Some(_)) => one(&pattern[1..], &name[1..]),
            (Some(b'['), Some(byte)) => {
                let Some(close) = pattern.iter().position(|b| *b == b']') else { return false };
                let set = &pattern[1..close];
                let inside = set.windows(3).any(|w| w[1] == b'-' && (w[0]..=w[2]).contains(byte)) || set.contains(byte);
                inside && one(&pattern[close + 1..], &name[1..])
            }
            (Some(a), Some(b)) => a == b && one(&pattern[1..], &name[1..]),
            _ => false,
        }
    }
    pattern.split('|').any(|alternative| one(alternative.as_bytes(), name.as_bytes()))
}

/// What stands between the quotes after `key` and one of `operators`, each time that it does.
fn quoted<'a>(line: &'a str, key: &'a str, operators: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    line.match_indices(key).filter_map(move |(at, _)| {
        let (operator, rest) = line[at + key.len()..].split_once('"')?;
        operators.contains(&operator.trim()).then(|| rest.split('"').next())?
    })
}

fn rules(host: &Host) -> Vec<(Vec<String>, Setting)> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for directory in RULES {
        for name in host.names(directory).into_iter().filter(|name| name.ends_with(".rules")) {
            if !seen.insert(name.clone()) {
                continue;
            }
            let place = format!("{directory}/{name}");
            let text = host.text(&place).unwrap_or_default();
            for (number, line) in text.lines().enumerate() {
                let line = line.trim_start();
                let assigned = quoted(line, "read_ahead_kb}", &["=", ":=", "+="]).last();
                let assigned = assigned.and_then(|value| value.trim().parse().ok());
                let (Some(kib), false) = (assigned, line.starts_with('#')) else { continue };
                let kernel = quoted(line, "KERNEL", &["=="]).next().unwrap_or("*");
                let setting = Setting { kib, place: format!("udev rule {place}:{}", number + 1) };
                found.push((vec![kernel.to_owned()], setting));
            }
        }
    }
    found
}

/// Places of tuned's profiles, the strongest first.
const PROFILES: [&str; 4] = ["/etc/tuned", "/etc/tuned/profiles", "/usr/lib/tuned", "/usr/lib/tuned/profiles"];
/// Profiles that include each other are followed so far.
const INCLUDED_MAX: usize = 16;

/// What tuned sets by its active profiles, and whether it is given in sectors.
#[derive(Default)]
struct Tuned {
    setting: Option<Setting>,
    sectors: bool,
    /// Files that were read: one that includes a profile of its own name means the next one of that name.
    seen: Vec<String>,
}

impl Tuned {
    fn read(host: &Host) -> Tuned {
        let mut tuned = Tuned::default();
        for name in host.text("/etc/tuned/active_profile").unwrap_or_default().split_whitespace() {
            tuned.add(host, name, name, INCLUDED_MAX);
        }
        tuned
    }

    /// Takes in the profile `name`, which `active` includes: what it includes first, so that its own value counts. Its
    /// `readahead` is KiB, or sectors where an `s` follows; `>` says "at least". A minus says that it need not exist.
    fn add(&mut self, host: &Host, active: &str, name: &str, depth: usize) {
        let name = name.trim_start_matches('-');
        let name = name.rsplit('/').next().unwrap_or(name);
        let places = PROFILES.iter().map(|directory| format!("{directory}/{name}/tuned.conf"));
        let found =
            places.filter(|place| !self.seen.contains(place)).find_map(|place| Some((host.text(&place)?, place)));
        let Some((text, place)) = found.filter(|_| depth > 0) else { return };
        self.seen.push(place.clone());
        let (mut section, mut own) = ("", None);
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
            }
            let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
                continue;
            };
            if section == "main" && key == "include" {
                value.split([',', ';']).for_each(|name| self.add(host, active, name.trim(), depth - 1));
            } else if key == "readahead" {
                own = Some(value.trim_start_matches(['>', '<']).trim());
            }
        }
        let Some(value) = own else { return };
        let number = value.trim_end_matches('s').trim().parse::<u32>().ok();
        let kib = |number| if value.ends_with('s') { number / 2 } else { number };
        self.sectors = value.ends_with('s');
        self.setting =
            number.map(|number| Setting { kib: kib(number), place: format!("tuned profile {active} ({place})") });
    }
}

/// The default that nfs-utils sets by its udev helper: section `nfsrahead` of nfs.conf.
fn nfs_conf(host: &Host) -> Option<Setting> {
    let text = host.text("/etc/nfs.conf")?;
    let section = text.split("[nfsrahead]").nth(1)?.split("\n[").next()?;
    let kib = section.lines().find_map(|line| line.trim().strip_prefix("default")?.trim_start().strip_prefix('='))?;
    Some(Setting { kib: kib.trim().parse().ok()?, place: "nfsrahead in /etc/nfs.conf".into() })
}

/// Mounts below the directories where container storage drivers put volumes.
fn is_volume(point: &str) -> bool {
    point.starts_with("/var/lib/kubelet/") && (point.contains("/kubernetes.io~csi/") || point.contains("/plugins/"))
}

impl Origins {
    /// Reads what the machine has.
    pub fn read(host: &Host) -> Origins {
        let ours = Journal::open(host).map(|journal| journal.devices).unwrap_or_default();
        Origins {
            rules: rules(host),
            tuned: Tuned::read(host),
            nfs_conf: nfs_conf(host),
            ours: ours.into_iter().map(|entry| (entry.knob, entry.original_kib, entry.written_kib)).collect(),
        }
    }

    /// Where `value_kib` of a device came from.
    pub fn of(&self, host: &Host, bdi: &Bdi, value_kib: u32) -> String {
        let knob = bdi.knob(host);
        if let Some((_, original, _)) = self.ours.iter().find(|(k, _, w)| *k == knob && w.contains(&value_kib)) {
            return format!("linnet tune (before: {original} KiB)");
        }
        let name = bdi.disk.as_deref().unwrap_or(&bdi.name);
        let by_rule = |wanted: u32| {
            self.rules.iter().find(|(kernel, set)| set.kib == wanted && kernel.iter().any(|k| matches(k, name)))
        };
        if let Some((_, set)) = by_rule(value_kib) {
            return set.place.clone();
        }
        if let Some(set) = &self.tuned.setting
            && bdi.kind == Kind::Block
        {
            if set.kib == value_kib {
                return set.place.clone();
            }
            // blockdev counts sectors of 512 bytes: a number meant for one unit and used with the other.
            if !self.tuned.sectors && set.kib / 2 == value_kib {
                return format!("{}: {} there was taken for sectors", set.place, set.kib);
            }
        }
        if let Some(set) = self.nfs_conf.as_ref().filter(|set| bdi.kind == Kind::Nfs && set.kib == value_kib) {
            return set.place.clone();
        }
        kernel::default_of(host, bdi, value_kib).unwrap_or_else(|| {
            let option = |mount: &crate::mounts::Mount| {
                mount
                    .options
                    .split(',')
                    .find(|o| o.starts_with("rasize=") || o.starts_with("read_ahead"))
                    .map(str::to_owned)
            };
            if let Some(found) = bdi.mounts.iter().find_map(option) {
                format!("mount option {found}")
            } else if let Some(mount) = bdi.mounts.iter().find(|mount| is_volume(&mount.point)) {
                format!("probably the storage driver that mounted {}", mount.point)
            } else {
                "unknown: written by hand, by a script or by the machine's image".into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_as_udev_matches_them() {
        assert!(matches("sd*|nvme*n*", "nvme0n1"));
        assert!(matches("sd[a-c]", "sdb") && !matches("sd[a-c]", "sdd"));
        assert!(matches("sd?", "sda") && !matches("sd?", "sda1"));
        assert!(!matches("vd*", "sda"));
    }
}
