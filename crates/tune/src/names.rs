// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups and files by the names that an operator knows: containers, pods, units, paths.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::mounts::{Mount, mounts, our_path};

/// Where the tree of control groups, version 2, may be mounted.
const TREES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A name is kept for so long: containers may be renamed.
const KEPT: Duration = Duration::from_secs(30);
/// For a group that is not known the tree is walked so often: one that is gone stays unknown.
const WALK: Duration = Duration::from_secs(1);

/// Resolves names, and keeps what it resolved.
#[derive(Debug)]
pub struct Names {
    host: Host,
    groups: HashMap<u64, String>,
    walked: Option<Instant>,
    named: HashMap<u64, (Instant, Name)>,
}

/// What an operator calls a control group.
#[derive(Debug, Clone)]
struct Name {
    /// As it is printed.
    text: String,
    /// The names of which each alone means it.
    each: Vec<String>,
}

impl Name {
    fn container(name: &str) -> Name {
        Name { text: format!("container {name}"), each: vec![name.to_owned()] }
    }
}

/// The 64 hexadecimal digits of a container in one part of a path.
fn container_id(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = part.rsplit(['-', ':']).next()?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

impl Names {
    /// Names of this machine.
    pub fn new(host: &Host) -> Names {
        Names { host: host.clone(), groups: HashMap::new(), walked: None, named: HashMap::new() }
    }

    /// The path of a control group, by its number (the inode of its directory).
    pub fn group_path(&mut self, id: u64) -> String {
        if let Some(path) = self.groups.get(&id) {
            return path.clone();
        }
        if self.walked.is_none_or(|walked| walked.elapsed() >= WALK) {
            self.read_groups();
        }
        self.groups.get(&id).cloned().unwrap_or_else(|| format!("(gone: {id})"))
    }

    fn read_groups(&mut self) {
        self.groups.clear();
        self.walked = Some(Instant::now());
        for tree in TREES {
            let root = self.host.path(tree);
            if root.join("cgroup.controllers").exists() {
                self.walk(&root, &root);
                self.named.retain(|id, _| self.groups.contains_key(id));
                return;
            }
        }
    }

    fn walk(&mut self, root: &Path, directory: &PathBuf) {
        let Ok(metadata) = directory.metadata() else { return };
        let path = directory.strip_prefix(root).map(|path| format!("/{}", path.display())).unwrap_or_default();
        self.groups.insert(metadata.ino(), path);
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.walk(root, &entry.path());
            }
        }
    }

    /// What an operator calls a control group: pod and container, a container's name, a unit, or else the path.
    pub fn group(&mut self, id: u64) -> String {
        self.named(id).text
    }

    fn named(&mut self, id: u64) -> Name {
        if let Some((since, name)) = self.named.get(&id)
            && since.elapsed() < KEPT
        {
            return name.clone();
        }
        let name = self.name(id);
        if self.groups.contains_key(&id) {
            self.named.insert(id, (Instant::now(), name.clone()));
        }
        name
    }

    fn name(&mut self, id: u64) -> Name {
        let path = self.group_path(id);
        if let Some(id) = path.rsplit('/').find_map(container_id) {
            return self.container(id).unwrap_or_else(|| Name::container(&id[..12]));
        }
        let unit = path.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"));
        let each = unit.map(str::to_owned).into_iter().collect();
        Name { text: unit.map_or(path.clone(), str::to_owned), each }
    }

    fn container(&self, id: &str) -> Option<Name> {
        // The kubelet links POD_NAMESPACE_CONTAINER-ID.log.
        let suffix = format!("-{id}.log");
        let logs = self.host.names("/var/log/containers");
        if let Some(name) = logs.iter().find_map(|name| name.strip_suffix(&suffix)) {
            let mut parts = name.splitn(3, '_');
            if let (Some(pod), Some(space), Some(container)) = (parts.next(), parts.next(), parts.next()) {
                let text = format!("pod {space}/{pod}, container {container}");
                return Some(Name { text, each: vec![format!("{space}/{pod}"), container.to_owned()] });
            }
        }
        let name_in = |text: &str, id: Option<&str>| -> Option<String> {
            let value: serde_json::Value = serde_json::from_str(text).ok()?;
            match id {
                None => Some(value.get("Name")?.as_str()?.trim_start_matches('/').to_owned()),
                Some(id) => {
                    let of = value.as_array()?.iter().find(|entry| entry["id"].as_str() == Some(id))?;
                    Some(of["names"].get(0)?.as_str()?.to_owned())
                }
            }
        };
        let docker = self.host.text(format!("/var/lib/docker/containers/{id}/config.v2.json"));
        let podman = self.host.text("/var/lib/containers/storage/overlay-containers/containers.json");
        let name = docker
            .and_then(|text| name_in(&text, None))
            .or_else(|| podman.and_then(|text| name_in(&text, Some(id))))?;
        Some(Name::container(&name))
    }

    /// True where `wanted` means this group: its number, its path or a parent's, or the name of its pod with namespace, of
    /// its container or of its unit.
    pub fn group_is(&mut self, id: u64, wanted: &str) -> bool {
        let path = self.group_path(id);
        let below = |base: &str| path == base || path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
        wanted == id.to_string()
            || below(wanted.trim_end_matches('/'))
            || self.named(id).each.iter().any(|name| name == wanted)
    }

    /// True where there is a group that `wanted` means.
    pub fn has_group(&mut self, wanted: &str) -> bool {
        self.read_groups();
        let all: Vec<u64> = self.groups.keys().copied().collect();
        all.into_iter().any(|id| self.group_is(id, wanted))
    }

    /// The path of an open file as this machine's root sees it, and the name of the process.
    pub fn file(&self, process: u32, fd: u32, ours: &[Mount]) -> (Option<String>, String) {
        let command = self.host.text(format!("/proc/{process}/comm")).unwrap_or_default();
        let Some(theirs) = self.host.link(format!("/proc/{process}/fd/{fd}")) else { return (None, command) };
        let same = self.host.link(format!("/proc/{process}/ns/mnt")) == self.host.link("/proc/self/ns/mnt");
        if same {
            return (Some(theirs), command);
        }
        let path = our_path(&mounts(&self.host, &process.to_string()), ours, &theirs);
        (Some(path.unwrap_or(theirs)), command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn groups_by_what_the_operator_calls_them() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let groups = [
            format!("/system.slice/docker-{a}.scope"),
            format!("/kubepods.slice/kubepods-pod7.slice/cri-containerd-{b}.scope"),
            "/system.slice/postgresql.service".to_owned(),
            "/plain/inner".to_owned(),
        ];
        host.replace("/sys/fs/cgroup/cgroup.controllers", "io").expect("written");
        for group in &groups {
            fs::create_dir_all(host.path(format!("/sys/fs/cgroup{group}"))).expect("made");
        }
        host.replace(format!("/var/lib/docker/containers/{a}/config.v2.json"), r#"{"Name": "/db"}"#).expect("written");
        host.replace(format!("/var/log/containers/web-0_prod_nginx-{b}.log"), "").expect("written");
        let id = |group: &String| fs::metadata(host.path(format!("/sys/fs/cgroup{group}"))).expect("made").ino();
        let mut names = Names::new(&host);
        assert_eq!(names.group(id(&groups[0])), "container db");
        assert_eq!(names.group(id(&groups[1])), "pod prod/web-0, container nginx");
        assert_eq!(names.group(id(&groups[2])), "postgresql.service");
        assert_eq!(names.group(id(&groups[3])), "/plain/inner");
        assert!(names.group(1).starts_with("(gone"));
        assert!(names.group_is(id(&groups[0]), "db") && !names.group_is(id(&groups[0]), "d"));
        assert!(names.group_is(id(&groups[3]), "/plain") && !names.group_is(id(&groups[3]), "/pla"));
        assert!(names.group_is(id(&groups[1]), "prod/web-0"));
        assert!(names.group_is(id(&groups[1]), "nginx") && !names.group_is(id(&groups[1]), "web-0"));
        assert!(names.group_is(id(&groups[2]), "postgresql.service"));
        for word in ["pod", "container", "prod/web-0,", "(gone:"] {
            assert!(!names.has_group(word) && !names.group_is(1, word), "{word:?} is nobody's name");
        }
        assert!(names.has_group("db") && names.has_group("/plain") && !names.has_group("/pla"));
    }
}
