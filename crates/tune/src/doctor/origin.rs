// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a readahead value came from. Nothing records it, so this compares the value with what each known place would
//! have set: Linnet's journal, udev rules, the profile of tuned, mount options, drivers of container storage, and the
//! kernel's own defaults. The first that fits is named.

use crate::bdi::{Bdi, Kind};
use crate::doctor::kernel;
use crate::host::Host;
use crate::journal::Journal;

/// Places of udev rules, the strongest first.
const RULES: [&str; 4] = ["/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"];

/// A place that sets readahead values.
struct Setting {
    kib: u32,
    place: String,
}

/// Everything on the machine that sets readahead, read once for all devices.
pub struct Origins {
    rules: Vec<(Vec<String>, Setting)>,
    tuned: Option<Setting>,
    tuned_sectors: bool,
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

/// What stands between the quotes after `key`.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line[line.find(key)? + key.len()..].trim_start_matches(['=', ':', '+', ' ']);
    rest.strip_prefix('"')?.split('"').next()
}

fn rules(host: &Host) -> Vec<(Vec<String>, Setting)> {
    let mut found = Vec::new();
    for directory in RULES {
        for name in host.names(directory).into_iter().filter(|name| name.ends_with(".rules")) {
            let place = format!("{directory}/{name}");
            let text = host.text(&place).unwrap_or_default();
            for (number, line) in text.lines().enumerate() {
                let line = line.trim_start();
                let assigned = quoted(line, "read_ahead_kb}").and_then(|value| value.trim().parse().ok());
                let (Some(kib), false) = (assigned, line.starts_with('#')) else { continue };
                let kernel = quoted(line, "KERNEL").unwrap_or("*");
                let setting = Setting { kib, place: format!("udev rule {place}:{}", number + 1) };
                found.push((vec![kernel.to_owned()], setting));
            }
        }
    }
    found
}

/// The profile's `readahead`: KiB, or sectors where an `s` follows; `>` says "at least".
fn tuned(host: &Host) -> (Option<Setting>, bool) {
    let Some(profile) = host.text("/etc/tuned/active_profile") else { return (None, false) };
    for name in profile.split_whitespace() {
        for directory in ["/etc/tuned", "/etc/tuned/profiles", "/usr/lib/tuned", "/usr/lib/tuned/profiles"] {
            let place = format!("{directory}/{name}/tuned.conf");
            let Some(text) = host.text(&place) else { continue };
            let value = text.lines().find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == "readahead").then(|| value.trim().trim_start_matches(['>', '<']).trim().to_owned())
            });
            let Some(value) = value else { continue };
            let sectors = value.ends_with('s');
            let Ok(number) = value.trim_end_matches('s').trim().parse::<u32>() else { continue };
            let kib = if sectors { number / 2 } else { number };
            return (Some(Setting { kib, place: format!("tuned profile {name} ({place})") }), sectors);
        }
    }
    (None, false)
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
        let (tuned, tuned_sectors) = tuned(host);
        let ours = Journal::open(host).map(|journal| journal.devices).unwrap_or_default();
        Origins {
            rules: rules(host),
            tuned,
            tuned_sectors,
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
        if let Some(set) = &self.tuned
            && bdi.kind == Kind::Block
        {
            if set.kib == value_kib {
                return set.place.clone();
            }
            // blockdev counts sectors of 512 bytes: a number meant for one unit and used with the other.
            if !self.tuned_sectors && set.kib / 2 == value_kib {
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
