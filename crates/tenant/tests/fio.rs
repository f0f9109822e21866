// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads that fio job files declare.

use std::path::Path;

use linnet_tenant::{DepthFrom, Profile, declared};
use linnet_types::Op;

fn jobs(text: &str) -> Vec<(String, Profile)> {
    declared(Path::new("a.fio"), text).unwrap()
}

fn refused(text: &str) -> String {
    declared(Path::new("a.fio"), text).unwrap_err().to_string()
}

#[test]
fn options_of_global_and_of_the_job_make_the_load() {
    let found = jobs(
        "; two tenants\n[global]\nioengine=libaio\niodepth=16\nbs=4k\n\n[db]\nrw=randrw\nrwmixread=75\n\
         rate_iops=750,1000\nnumjobs=2\n[log]\nrw=write\nbs=6k\nrate=6m\niodepth=1\n",
    );
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["db", "log"]);
    let (db, log) = (&found[0].1, &found[1].1);
    // Each direction has its own limit, whatever the mix.
    assert_eq!((db.group(0).rate_mean, db.group(2).rate_mean), (1500.0, 2000.0));
    assert_eq!((db.group(0).size_bytes_mean, db.depth(), db.random_ratio(Op::Read)), (4096.0, 32.0, 1.0));
    assert_eq!(db.depth_from, DepthFrom::Declared);
    assert_eq!(log.group(3).rate_mean, 1024.0);
    assert_eq!((log.rate(Op::Read), log.random_ratio(Op::Write), log.depth()), (0.0, 0.0, 1.0));
    // Offsets 0, 6 KiB, 12 KiB, ...: every second one is aligned.
    assert_eq!(log.group(3).unaligned_ratio, 0.5);
}

/// What fio 3.33 does with `ioengine=null`, to the whole I/O per second.
#[test]
fn a_mix_does_not_change_what_its_limits_give() {
    for (options, reads, writes) in [
        ("rw=randrw\nrwmixread=70\nrate_iops=1000", 1000.0, 1000.0),
        ("rw=randrw\nrwmixread=90\nrate_iops=1000", 1000.0, 1000.0),
        ("rw=randrw\nrate_iops=1k,2k", 1024.0, 2048.0),
        ("rw=rw\nrwmixread=30\nrate_iops=100,2000", 100.0, 2000.0),
        ("rw=randrw\nrwmixread=70\nrate=4m,8m", 1024.0, 2048.0),
        ("rw=randrw\nrwmixread=100\nrate_iops=1000,0", 1000.0, 0.0),
        ("rw=randrw\nrwmixread=0\nrate_iops=1000", 0.0, 1000.0),
    ] {
        let (_, job) = &jobs(&format!("[a]\n{options}\n"))[0];
        assert_eq!((job.rate(Op::Read), job.rate(Op::Write)), (reads, writes), "{options}");
    }
}

#[test]
fn pauses_make_a_deviation() {
    let (_, job) = &jobs("[a]\nrw=randwrite\nrate_iops=1000\nthinktime=1s\nthinktime_iotime=1s\n")[0];
    assert_eq!((job.group(2).rate_mean, job.group(2).rate_std), (1000.0, 1000.0));
    let (_, job) =
        &jobs("[a]\nrw=randwrite\nrate_iops=1000\nthinktime=3s\nthinktime_iotime=1s\nrate_ignore_thinktime\n")[0];
    assert_eq!(job.group(2).rate_mean, 250.0);
    assert!((job.group(2).rate_std - 250.0 * 3f64.sqrt()).abs() < 1e-9);
}

#[test]
fn sizes_of_a_range_fall_into_both_classes() {
    let (_, job) = &jobs("[a]\nrw=randread\nbsrange=2k-8k\nrate_iops=400\n")[0];
    // 2, 4, 6 and 8 KiB: two are multiples of the page. fio lets 400 times 2 KiB pass in a second, 160 I/Os of 5 KiB.
    assert_eq!((job.group(0).rate_mean, job.group(0).size_bytes_mean), (80.0, 6144.0));
    assert_eq!((job.group(1).rate_mean, job.group(1).size_bytes_mean), (80.0, 4096.0));
    let (_, job) = &jobs("[a]\nrw=randrw\nbsrange=2k-8k,8k-32k\nrate_iops=400\n")[0];
    assert_eq!((job.rate(Op::Read), job.rate(Op::Write)), (160.0, 160.0));
    let (_, job) = &jobs("[a]\nrw=randrw\nbs=4k,16k\nrate_iops=400\n")[0];
    assert_eq!((job.rate(Op::Read), job.rate(Op::Write)), (400.0, 400.0));
}

#[test]
fn the_papers_unaligned_offsets() {
    let (_, job) = &jobs("[a]\nrw=write:17k\nbs=4k\nrate_iops=100\n")[0];
    // Steps of 21 KiB: one offset in four is a multiple of 4 KiB.
    assert_eq!((job.group(2).unaligned_ratio, job.random_ratio(Op::Write)), (0.75, 1.0));
}

#[test]
fn what_declares_no_load_is_refused_with_its_place() {
    for (text, words) in [
        ("[a]\nrw=read\n", vec!["a.fio", "[a] rate_iops", "is missing"]),
        ("[a]\nrw=randrw\n", vec!["[a] rate_iops", "is missing"]),
        (
            "[a]\nrw=randrw\nrate_iops=1000,\n",
            vec!["a.fio", "[a] rate_iops", "limits reads only", "rate_iops=READS,WRITES"],
        ),
        ("[a]\nrw=rw\nrate_iops=,1000\n", vec!["[a] rate_iops", "limits writes only", "rate_iops=READS,WRITES"]),
        ("[a]\nrw=rw\nrate=1m,0\n", vec!["[a] rate", "limits reads only", "rate=READS,WRITES"]),
        ("[a]\nrw=randwrite\nrate_iops=1000,\n", vec!["[a] rate_iops", "is missing"]),
        ("rw=read\n[a]\n", vec!["line 1", "first section"]),
        ("[a\n", vec!["line 1", "not a section"]),
        ("[global]\nrw=read\n", vec!["no job"]),
        ("[a]\nrw=trim\nrate_iops=1\n", vec!["[a] rw", "`trim`"]),
        ("[a]\nbs=4q\nrate_iops=1\n", vec!["[a] bs", "`4q`"]),
        ("[a]\nbs=0\nrate_iops=1\n", vec!["[a] bs", "at least 1"]),
        ("[a]\nbssplit=4k/50:8k/50\nrate_iops=1\n", vec!["[a] bssplit"]),
        ("[a]\nrw=rw\nrwmixread=150\nrate_iops=1\n", vec!["rwmixread", "100 percent"]),
        ("[a]\nthinktime=1s\nrate_iops=1\n", vec!["thinktime", "thinktime_iotime"]),
        ("[a]\nbsrange=8k-4k\nrate_iops=1\n", vec!["bsrange", "8k-4k"]),
        ("[a]\nblocksize_range=8k-4k\nrate_iops=1\n", vec!["bsrange", "8k-4k"]),
        ("[a]\nrate_iops=1\ninclude more.fio\n", vec!["line 3", "`include more.fio` is not supported"]),
        ("include=more.fio\n[a]\nrate_iops=1\n", vec!["line 1", "`include=more.fio` is not supported"]),
        ("[a]\nbs_is_seq_rand=1\nrate_iops=1\n", vec!["[a] bs_is_seq_rand", "not supported"]),
        ("[a]\nbs_unaligned\nbsrange=1k-8k\nrate_iops=1\n", vec!["[a] bs_unaligned", "not supported"]),
        ("[a]\nblocksize_unaligned=1\nrate_iops=1\n", vec!["[a] bs_unaligned", "not supported"]),
        ("[a]\nnumjobs=0\nrate_iops=1\n", vec!["[a] numjobs", "0 is less than one job"]),
    ] {
        let told = refused(text);
        assert!(words.iter().all(|word| told.contains(word)), "{text:?}: {told}");
    }
}

#[test]
fn an_option_that_is_off_and_a_name_like_another_are_no_reason_to_refuse() {
    let load = jobs("[a]\nrate_iops=10\n");
    let off = jobs("[a]\nrate_iops=10\nbs_is_seq_rand=0\nbs_unaligned=0\nflow=0\nincluded=1\nnumjobs=1\n");
    assert_eq!(off, load);
}

#[test]
fn numbers_beyond_all_drives_are_refused_with_their_option() {
    let job = |options: &str| refused(&format!("[a]\nrw=randwrite\nrate_iops=100\n{options}\n"));
    for (options, place) in [
        ("bs=18446744073709551615", "[a] bs"),
        ("bsrange=1t-99999999999999999999", "[a] bsrange"),
        ("blockalign=9223372036854775807", "[a] blockalign"),
        ("rw=write:18446744073709551615", "[a] rw"),
        (&format!("numjobs={}", "9".repeat(400)), "[a] numjobs"),
        (&format!("rate_iops={0}\nnumjobs={0}", "9".repeat(200)), "[a] rate"),
        (&format!("thinktime=1\nthinktime_iotime=0.{}1", "0".repeat(320)), "[a] rate"),
    ] {
        assert!(job(options).contains(place), "{options}: {}", job(options));
    }
}

#[test]
fn files_have_limits_that_the_error_names() {
    let long = format!("[a]\nrate_iops=1\n#{}\n", "x".repeat(1 << 20));
    assert!(refused(&long).contains("longer than 1048576 bytes"), "{}", refused(&long));
    // A quarter of the file is for all jobs, and there are many: copied, they would take gigabytes.
    let options: String = (0..16_000).map(|n| format!("option{n}=1\n")).collect();
    let many = format!("[global]\nrate_iops=1\n{options}{}", "[a]\n".repeat(100_000));
    assert!(refused(&many).contains("16777216 bytes of [global] options"), "{}", refused(&many));
}
