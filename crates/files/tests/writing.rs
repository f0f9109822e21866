// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the writer keeps, follows, writes through and refuses.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use linnet_files::{Links, Output, read, write};
use rustix::fs::{CWD, FileType, Mode};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("linnet-files-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let folder = Folder::new("whole");
    let target = folder.at("a");
    for round in ["first", "second"] {
        let mut output = Output::create(&target, Links::Follow).unwrap();
        output.write_all(b"given up").unwrap();
        drop(output);
        assert_eq!(target.exists(), round == "second");
        write(&target, round.as_bytes(), Links::Follow).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), round);
        assert_eq!(folder.names(), ["a"]);
    }
    // A file that appears meanwhile is replaced as one that was there.
    let mut output = Output::create(&folder.at("b"), Links::Follow).unwrap();
    fs::write(folder.at("b"), "came between").unwrap();
    output.write_all(b"mine").unwrap();
    output.commit().unwrap();
    assert_eq!(fs::read_to_string(folder.at("b")).unwrap(), "mine");
    assert_eq!(folder.names(), ["a", "b"]);
}

#[test]
fn the_mode_is_kept() {
    let folder = Folder::new("mode");
    for bits in [0o600, 0o640, 0o755] {
        let target = folder.at(&format!("{bits:o}"));
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(bits)).unwrap();
        let mut output = Output::create(&target, Links::Follow).unwrap();
        output.write_all(b"new").unwrap();
        // Nobody else reads it before it has its mode.
        assert_eq!(output.handle().unwrap().metadata().unwrap().mode() & 0o077, 0);
        output.commit().unwrap();
        assert_eq!((mode(&target), fs::read_to_string(&target).unwrap().as_str()), (bits, "new"));
    }
}

#[test]
fn the_owner_is_kept_where_root_writes() {
    let folder = Folder::new("owner");
    let target = folder.at("a");
    fs::write(&target, "old").unwrap();
    if std::os::unix::fs::chown(&target, Some(12345), Some(23456)).is_err() {
        eprintln!("skipped: needs root");
        return;
    }
    write(&target, b"new", Links::Follow).unwrap();
    let about = fs::metadata(&target).unwrap();
    assert_eq!((about.uid(), about.gid()), (12345, 23456));
}

#[test]
fn an_access_control_list_is_kept() {
    const NAME: &str = "system.posix_acl_access";
    let folder = Folder::new("acl");
    let target = folder.at("a");
    fs::write(&target, "old").unwrap();
    // Version 2; tag, rights and id of: the owner, user 1000, the group (nothing), the mask, others.
    let none = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [(1, 6, none), (2, 6, 1000), (4, 0, none), (16, 6, none), (32, 0, none)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    if rustix::fs::setxattr(&target, NAME, &list, rustix::fs::XattrFlags::empty()).is_err() {
        eprintln!("skipped: the file system has no access control lists");
        return;
    }
    assert_eq!(mode(&target), 0o660, "the group's bits are the mask");
    write(&target, b"new", Links::Follow).unwrap();
    let mut found = [0; 256];
    let length = rustix::fs::getxattr(&target, NAME, &mut found[..]).unwrap();
    assert_eq!((&found[..length], mode(&target)), (&list[..], 0o660));
}

#[test]
fn links_stay() {
    let folder = Folder::new("links");
    fs::create_dir(folder.at("deep")).unwrap();
    fs::write(folder.at("deep/real"), "old").unwrap();
    symlink("deep/real", folder.at("one")).unwrap();
    symlink("one", folder.at("two")).unwrap();
    symlink("deep/absent", folder.at("dangling")).unwrap();
    symlink("loop", folder.at("loop")).unwrap();
    write(&folder.at("two"), b"new", Links::Follow).unwrap();
    write(&folder.at("dangling"), b"made", Links::Follow).unwrap();
    assert_eq!(fs::read_to_string(folder.at("deep/real")).unwrap(), "new");
    assert_eq!(fs::read_to_string(folder.at("deep/absent")).unwrap(), "made");
    assert!(folder.at("one").is_symlink() && folder.at("two").is_symlink() && folder.at("dangling").is_symlink());
    assert!(write(&folder.at("loop"), b"x", Links::Follow).is_err());
    for name in ["two", "dangling", "loop"] {
        assert!(write(&folder.at(name), b"x", Links::Refuse).unwrap_err().to_string().contains("link"));
    }
    assert_eq!(fs::read_to_string(folder.at("deep/real")).unwrap(), "new");
}

#[test]
fn a_pipe_is_written_through() {
    let folder = Folder::new("pipe");
    let pipe = folder.at("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert!(write(&pipe, b"x", Links::Refuse).unwrap_err().to_string().contains("not a regular file"));
    let from = pipe.clone();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        fs::File::open(from).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    write(&pipe, b"through", Links::Follow).unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(folder.names(), ["pipe"]);
}

#[test]
fn devices_stay() {
    let folder = Folder::new("devices");
    symlink("/dev/null", folder.at("null")).unwrap();
    for target in [PathBuf::from("/dev/null"), folder.at("null")] {
        let output = Output::create(&target, Links::Follow).unwrap();
        assert!(output.is_through());
        output.commit().unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
    // A node of one's own shows that it is the kind that counts, not the name. Making nodes needs root.
    let node = folder.at("node");
    let null = rustix::fs::makedev(1, 3);
    if rustix::fs::mknodat(CWD, &node, FileType::CharacterDevice, Mode::from_raw_mode(0o600), null).is_ok() {
        // Where nodes may be made but not opened (user namespaces), the writer says so.
        let _ = write(&node, b"x", Links::Follow);
        assert!(fs::metadata(&node).unwrap().file_type().is_char_device());
    }
    let disk = folder.at("disk");
    let number = rustix::fs::makedev(7, 255);
    if rustix::fs::mknodat(CWD, &disk, FileType::BlockDevice, Mode::from_raw_mode(0o600), number).is_ok() {
        assert!(write(&disk, b"x", Links::Follow).unwrap_err().to_string().contains("block device"));
        assert!(fs::metadata(&disk).unwrap().file_type().is_block_device());
    }
}

#[test]
fn an_open_file_is_written_where_it_is_at() {
    let folder = Folder::new("fd");
    let mut file = fs::File::create(folder.at("log")).unwrap();
    file.write_all(b"before ").unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    write(Path::new(&name), b"after", Links::Follow).unwrap();
    assert_eq!(fs::read_to_string(folder.at("log")).unwrap(), "before after");
    // So is one that a link leads to, though the kernel calls a pipe by a name that no file has.
    let (mut reads, writes) = std::io::pipe().unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writes));
    symlink(name, folder.at("link")).unwrap();
    write(&folder.at("link"), b"through", Links::Follow).unwrap();
    drop(writes);
    let mut text = String::new();
    reads.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
}

#[test]
fn what_cannot_be_a_file_is_refused() {
    let folder = Folder::new("refused");
    let socket = folder.at("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(write(&socket, b"x", Links::Follow).unwrap_err().to_string().contains("not a regular file"));
    assert!(write(&folder.0, b"x", Links::Follow).unwrap_err().to_string().contains("directory"));
    assert!(write(&folder.at("absent/a"), b"x", Links::Follow).is_err());
    assert!(write(Path::new("/"), b"x", Links::Follow).is_err());
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
}

#[test]
fn the_longest_name_can_be_written() {
    let folder = Folder::new("long");
    let target = folder.at(&"n".repeat(255));
    write(&target, b"1", Links::Follow).unwrap();
    write(&target, b"2", Links::Follow).unwrap();
    assert_eq!(fs::read_to_string(target).unwrap(), "2");
}

#[test]
fn reading_is_bounded() {
    let folder = Folder::new("read");
    fs::write(folder.at("a"), "12345").unwrap();
    assert_eq!(read(&folder.at("a"), 5).unwrap(), b"12345");
    assert!(read(&folder.at("a"), 4).unwrap_err().to_string().contains("more than 4 bytes"));
    assert!(read(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string().contains("limit"));
    // Sizes beside those at which the buffer grows.
    for size in [0, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, (4 << 20) - 1, 4 << 20, (9 << 20) + 1] {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        fs::write(folder.at("b"), &bytes).unwrap();
        assert!(read(&folder.at("b"), size).unwrap() == bytes, "{size}");
        assert_eq!(read(&folder.at("b"), size.saturating_sub(1)).is_err(), size > 0, "{size}");
    }
    assert_eq!(read(&folder.at("absent"), 4).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
