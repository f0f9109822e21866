// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts, as /proc/PID/mountinfo lists them (proc(5)).

use crate::error::Result;
use crate::host::Host;

/// Major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dev {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Dev {
    /// From `MAJOR:MINOR`.
    pub fn parse(text: &str) -> Option<Dev> {
        let (major, minor) = text.split_once(':')?;
        Some(Dev { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// From the kernel's own dev_t: twelve bits and twenty.
    pub fn from_kernel(dev: u32) -> Dev {
        Dev { major: dev >> 20, minor: dev & 0xf_ffff }
    }

    /// From stat's st_dev, whose bits are the C library's.
    pub fn from_stat(dev: u64) -> Dev {
        Dev { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }

    /// To the kernel's own dev_t.
    pub fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor
    }
}

impl std::fmt::Display for Dev {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its number in this namespace, as /proc/PID/fdinfo names it.
    pub id: u32,
    /// The file system's device number; anonymous (major 0) where no block device holds it.
    pub dev: Dev,
    /// Which directory of the file system is mounted.
    pub root: String,
    /// Where.
    pub point: String,
    /// Options of the mount: ro, nosuid, noatime and the like.
    pub flags: String,
    /// What is mounted over it elsewhere appears here too.
    pub follows: bool,
    /// Type of the file system.
    pub fs: String,
    /// Device or server.
    pub source: String,
    /// Options of the file system.
    pub options: String,
}

/// Octal escapes of blanks and backslashes.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        match rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain + rest
}

fn line(text: &str) -> Option<Mount> {
    let (left, right) = text.split_once(" - ")?;
    let mut left = left.split(' ');
    let mut right = right.split(' ');
    let id = left.next()?.parse().ok()?;
    let mut left = left.skip(1);
    Some(Mount {
        id,
        dev: Dev::parse(left.next()?)?,
        root: unescape(left.next()?),
        point: unescape(left.next()?),
        flags: left.next().unwrap_or_default().to_owned(),
        follows: left.any(|word| word.starts_with("shared:") || word.starts_with("master:")),
        fs: right.next()?.to_owned(),
        source: unescape(right.next()?),
        options: right.next().unwrap_or_default().to_owned(),
    })
}

/// The mounts that process `process` sees ("self" for our own), in the order of mounting; none where they cannot be read.
pub fn mounts(host: &Host, process: &str) -> Vec<Mount> {
    read(host, process).unwrap_or_default()
}

/// As `mounts`, with the reason where they cannot be read.
pub fn read(host: &Host, process: &str) -> Result<Vec<Mount>> {
    Ok(host.read(format!("/proc/{process}/mountinfo"))?.lines().filter_map(line).collect())
}

/// The mount that is seen at a point: the topmost one there, which is listed last.
pub fn top<'a>(all: &'a [Mount], point: &str) -> Option<&'a Mount> {
    all.iter().rev().find(|mount| mount.point == point)
}

/// A mount point as it is listed: without slashes at its end.
pub fn plain(point: &str) -> &str {
    if point.len() > 1 { point.trim_end_matches('/') } else { point }
}

/// What remains of `path` below directory `base`; None where it is not below.
fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(base.strip_suffix('/').unwrap_or(base))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// A path that a process sees, as we see it: the same file on a mount of our own. None where we have no such mount.
pub fn our_path(theirs: &[Mount], ours: &[Mount], path: &str) -> Option<String> {
    // Later mounts hide earlier ones; a longer mount point is more exact.
    let (rest, mount) = theirs
        .iter()
        .filter_map(|mount| Some((below(path, &mount.point)?, mount)))
        .reduce(|best, next| if next.1.point.len() >= best.1.point.len() { next } else { best })?;
    let inside = format!("{}{rest}", mount.root.strip_suffix('/').unwrap_or(&mount.root));
    ours.iter().rev().filter(|own| own.dev == mount.dev).find_map(|own| {
        let rest = below(&inside, &own.root)?;
        Some(format!("{}{rest}", own.point.strip_suffix('/').unwrap_or(&own.point)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_blanks() {
        let mount =
            line(r"36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue");
        let mount = mount.expect("a mount");
        assert_eq!(mount.dev, Dev { major: 98, minor: 0 });
        assert_eq!((mount.point.as_str(), mount.fs.as_str()), ("/mnt two", "ext3"));
        assert_eq!(mount.options, "rw,errors=continue");
        assert_eq!((mount.id, mount.flags.as_str()), (36, "rw,noatime"));
        assert_eq!(line("nonsense"), None);
    }

    #[test]
    fn kernel_numbers_round_trip() {
        let dev = Dev { major: 259, minor: 70_000 };
        assert_eq!(Dev::from_kernel(dev.to_kernel()), dev);
    }

    #[test]
    fn a_path_in_a_container_is_found_on_the_host() {
        let mount = |dev, root: &str, point: &str| Mount {
            id: 0,
            flags: String::new(),
            follows: false,
            dev: Dev { major: 8, minor: dev },
            root: root.into(),
            point: point.into(),
            fs: "ext4".into(),
            source: String::new(),
            options: String::new(),
        };
        let theirs = [mount(1, "/layers/merged", "/"), mount(2, "/volumes/db", "/data")];
        let ours = [mount(1, "/", "/"), mount(2, "/", "/srv")];
        assert_eq!(our_path(&theirs, &ours, "/data/a.sst").as_deref(), Some("/srv/volumes/db/a.sst"));
        assert_eq!(our_path(&theirs, &ours, "/database").as_deref(), Some("/layers/merged/database"));
        assert_eq!(our_path(&theirs, &ours[..1], "/data/a.sst"), None);
    }
}
