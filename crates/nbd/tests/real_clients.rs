// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with other clients: fio, the tools of libnbd and of qemu. Each test is skipped if its tool is not installed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::client::{Fixed, SIZE, temporary};
use linnet_nbd::{Builder, Export, Handle, Storage};

/// Whether a program can be run; prints a message if not.
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Whether fio has its NBD engine, which is a build option.
fn fio_has_nbd() -> bool {
    let engines = Command::new("fio").arg("--enghelp").output().unwrap();
    let found = String::from_utf8_lossy(&engines.stdout).lines().any(|line| line.trim() == "nbd");
    if !found {
        println!("skipped: this fio has no nbd engine");
    }
    found
}

fn run(program: &str, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(program).args(args).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{program} {args:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Two drives of 20 us on a Unix socket and a port.
fn server() -> Handle {
    let export = |name| Export::of_device(name, SIZE, Fixed(20_000));
    Builder::new().export(export("a")).export(export("b")).unix(temporary("sock")).tcp(0).start().unwrap()
}

fn pattern() -> Vec<u8> {
    (0..SIZE as u32).map(|i| (i / 512).wrapping_mul(0x9E37_79B1).to_le_bytes()[(i % 4) as usize]).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !installed("fio") || !fio_has_nbd() {
        return;
    }
    let handle = server();
    for uri in handle.uris("a") {
        let out = run(
            "fio",
            &[
                "--name=verify",
                "--ioengine=nbd",
                &format!("--uri={uri}"),
                "--rw=randrw",
                "--bs=512-64k",
                "--size=8m",
                "--iodepth=16",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--verify_backlog=64",
                // Otherwise fio leaves a file in the working directory.
                "--verify_state_save=0",
                "--output-format=terse",
            ],
        );
        assert!(out.contains(";verify;"), "{out}");
    }
    let stats = handle.stop();
    let drive = &stats.exports[0];
    assert!(drive.commands[0] > 0 && drive.commands[1] > 0, "{drive:?}");
    assert_eq!((drive.failed, drive.refused, stats.garbled), (0, 0, 0));
}

#[test]
fn fio_trims_and_runs_several_jobs() {
    if !installed("fio") || !fio_has_nbd() {
        return;
    }
    let handle = server();
    let uri = &handle.uris("b")[0];
    let common = ["--ioengine=nbd", "--bs=4k", "--size=8m", "--iodepth=8", "--output-format=terse"];
    let uri = format!("--uri={uri}");
    run("fio", &[&common[..], &["--name=trim", "--rw=randtrim", &uri]].concat());
    let jobs = ["--name=jobs", "--rw=randread", "--numjobs=4", "--thread", &uri];
    run("fio", &[&common[..], &jobs].concat());
    let stats = handle.stop();
    assert!(stats.exports[1].commands[3] >= 1000, "trims: {:?}", stats.exports[1]);
    assert_eq!(stats.exports[1].commands[0], 4 * 2048, "each job reads its size: {:?}", stats.exports[1]);
}

#[test]
fn libnbd_reads_the_list_and_copies() {
    if !installed("nbdinfo") || !installed("nbdcopy") {
        return;
    }
    let handle = server();
    let uris = handle.uris("a");
    let info = run("nbdinfo", &["--list", &uris[0]]);
    for expected in ["export=\"a\"", "export=\"b\"", "can_multi_conn: true", "can_fua: true", "can_trim: true"] {
        assert!(info.contains(expected), "{expected} is missing in\n{info}");
    }
    assert!(info.contains("using structured packets") || info.contains("structured"), "{info}");
    let (from, back) = (temporary("from"), temporary("back"));
    std::fs::write(&from, pattern()).unwrap();
    run("nbdcopy", &["--flush", text(&from), &uris[0]]);
    run("nbdcopy", &[&uris[1], text(&back)]);
    assert!(std::fs::read(&back).unwrap() == pattern());
    // From one drive to the other, over several connections.
    run("nbdcopy", &["--connections=4", &uris[0], &handle.uris("b")[0]]);
    run("nbdcopy", &[&handle.uris("b")[1], text(&back)]);
    assert!(std::fs::read(&back).unwrap() == pattern());
    for path in [from, back] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn qemu_writes_discards_and_compares() {
    if !installed("qemu-io") || !installed("qemu-img") {
        return;
    }
    let path = temporary("data");
    let export =
        Export::of_device("a", SIZE, Fixed(20_000)).storage(Storage::File { path: path.clone(), durable: false });
    let handle = Builder::new().export(export).unix(temporary("sock")).start().unwrap();
    let uri = &handle.uris("a")[0];
    let commands = [
        "write -P 0x5a 0 1M",
        "write -f -P 0xa5 1M 64k",
        "discard 64k 64k",
        "write -z 256k 64k",
        "write -z -u 512k 64k",
        "flush",
        "read -P 0x5a 0 64k",
        "read -P 0 64k 64k",
        "read -P 0 256k 64k",
        "read -P 0xa5 1M 64k",
        "aio_write -P 3 2M 1M",
        "aio_write -P 4 3M 1M",
        "aio_flush",
        "read -P 4 3M 1M",
    ];
    let mut args = vec!["-f", "raw", "-d", "unmap"];
    commands.iter().for_each(|command| args.extend(["-c", command]));
    args.push(uri);
    let out = run("qemu-io", &args);
    assert!(!out.contains("Pattern verification failed"), "{out}");
    assert!(run("qemu-img", &["info", uri]).contains("8 MiB"));
    let image = temporary("image");
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", uri, text(&image)]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", uri, text(&image)]);
    std::fs::write(&image, pattern()).unwrap();
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", text(&image), uri]);
    let stats = handle.stop();
    assert!(stats.exports[0].commands[2] > 0 && stats.exports[0].commands[3] > 0, "{stats:?}");
    assert!(std::fs::read(&path).unwrap() == pattern(), "the file holds what the drive held");
    for path in [path, image] {
        std::fs::remove_file(path).unwrap();
    }
}
