// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small valid file of every format, as a starting point.

use std::io;
use std::path::Path;

use linnet_trace::{Metadata, ParquetWriter};
use linnet_types::{IoRecord, Op};

fn parquet(folder: &Path) -> io::Result<Vec<u8>> {
    let path = folder.join("seed.parquet");
    let write = || -> Result<(), linnet_trace::Error> {
        let mut writer = ParquetWriter::create(&path)?;
        for i in 0..50u64 {
            writer.push(&IoRecord {
                arrive_ns: i * 1000,
                latency_ns: (i % 3 > 0).then_some(i * 7 + 1),
                offset_bytes: i * 4096,
                size_bytes: 512 * (i as u32 + 1),
                device: i as u32 % 2,
                tenant: i as u32 % 3,
                op: if i % 4 == 0 { Op::Write } else { Op::Read },
            })?;
        }
        writer.finish(&Metadata {
            source_format: "fuzz".into(),
            skipped: [("zero size".to_string(), 2)].into(),
            origin_ns: Some(1 << 40),
        })
    };
    write().map_err(io::Error::other)?;
    std::fs::read(&path)
}

fn blktrace_event(time: u64, action: u32, sector: u64, pdu: &[u8]) -> Vec<u8> {
    let mut event = Vec::new();
    event.extend(0x6561_7407u32.to_le_bytes());
    event.extend(1u32.to_le_bytes());
    event.extend(time.to_le_bytes());
    event.extend(sector.to_le_bytes());
    event.extend(4096u32.to_le_bytes());
    event.extend(action.to_le_bytes());
    event.extend([0; 4]);
    event.extend((8u32 << 20).to_le_bytes());
    event.extend([0; 6]);
    event.extend((pdu.len() as u16).to_le_bytes());
    event.extend(pdu);
    event
}

fn vscsi_record(command: u8, lbn: u64, time_us: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(1u32.to_le_bytes());
    record.extend(4096u32.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend([command, 0, 0, 1]);
    record.extend(lbn.to_le_bytes());
    record.extend(time_us.to_le_bytes());
    record
}

/// A gzip member that holds its content as it is, and zeros behind it.
fn gzip(content: &[u8]) -> Vec<u8> {
    let length = content.len() as u16;
    let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    member.extend(length.to_le_bytes());
    member.extend((!length).to_le_bytes());
    member.extend(content);
    member.extend(crc32fast::hash(content).to_le_bytes());
    member.extend(u32::from(length).to_le_bytes());
    member.extend([0; 5]);
    member
}

/// Names of formats, with a file for each.
pub fn built_in(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let text = |name: &str, rows: &str| (name.to_string(), rows.as_bytes().to_vec());
    let events = [
        blktrace_event(5, 1 << 26, 0, b"kworker\0"),
        blktrace_event(10, 1 << 16 | 7, 8, b""),
        blktrace_event(15, 1 << 17 | 7, 64, b""),
        blktrace_event(30, 1 << 16 | 8, 8, b""),
    ];
    let vscsi = [vscsi_record(0x28, 8, 100), vscsi_record(0x2a, 64, 120), vscsi_record(0x35, 0, 130)];
    Ok(vec![
        ("parquet".to_string(), parquet(folder)?),
        ("blktrace".to_string(), events.concat()),
        ("vscsi".to_string(), vscsi.concat()),
        text("replay-ms-bytes", "0.000 0 200626176 4096 0\n0.250 1 8192 65536 1\n"),
        text("replay-ms-sectors", "0.000 5 174224064 16 1\n0.221 5 162947904 8 0\n"),
        text("replay-us-sectors", "0 0 280605840 2 1\n2700 0 287641400 128 0\n"),
        text("disksim", "7961.833 0 20228336 8 0\n8346.206 0 6397360 496 3\n"),
        text("mqsim", "11413000 0 657728 16 1\n13565000 1 31244784 64 0\n"),
        text("flashnet", "0.000,84,0,4096,90648576,0.101,4096\n0.000,71,1,8192,31408128,0.051,8192\n"),
        text("cloudphysics", "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,4096,8\n"),
        text(
            "blkparse",
            "  8,16   5        6     0.000011560 18046  D  RM 488386593 + 1 [a b]\n  8,16   5        7     0.001740194     0  C  RM 488386593 + 1 [0]\n  8,16   5        8     0.002     1  D  R 64 + 8 [a]\n  8,16   5        9     0.003     0  C  R 64 + 8 (    1) [65531]\n",
        ),
        text(
            "msr-cambridge",
            "128166372003061629,src1,1,Read,8192,512,12345\n128166372003061639,src1,1,Write,0,4096,100\n",
        ),
        text("alibaba", "0,R,126703644672,4096,1577808000000626\n7,W,512,8192,1577808000000700\n"),
        text("tencent", "1538323199,10714336,16,0,1063\n1538323200,8,8,1,1063\n"),
        text("spc", "0,20941264,8192,W,0.551706\n1,20939840,4096,r,0.554041\n"),
        text(
            "systor17",
            "Timestamp,Response,IOType,LUN,Offset,Size\n1455592511.153034,0.000398,R,4,1024,4096\n1455592511.2,9.5e-05,R,4,1024,4096\n",
        ),
        text("fio-iolog", "fio version 3 iolog\n2 /dev/a add\n878 /dev/a write 0 16384\n"),
        text("fio-iolog", "fio version 2 iolog\n/dev/a open\n/dev/a wait 250 0\n/dev/a read 0 4096\n"),
        text(
            "linnet-ftrace",
            "# tracer: nop\nCPU:2 [LOST 7 EVENTS]\nCPU:3 [LOST EVENTS]\n fio-812 [001] d.h1. 12.5: linnet_io: dev=253:0 id=1f replica=1 leg=7:1 op=read offset=4096 size=8192 arrived_ns=1000 latency_ns=84000 error=0 arrive=1 end=2 probe=0 tracked=1\n fio-812 [001] d.h1. 12.6: linnet_io: dev=253:0 id=20 replica=0 op=write offset=0 size=512 arrived_ns=1500 latency_ns=9000 error=-5 arrive=3\n sshd-1 [000] ..... 12.7: block_rq_issue: 8,0 W 4096\n",
        ),
        text("workload-csv", "t_ns,op,lba_512,sectors,latency_ns\n5,R,2,8,69802\n9,W,0,16,\n"),
        ("workload-csv".to_string(), [gzip(b"t_ns,op,lba_512,sectors\n"), gzip(b"5,R,2,8\n")].concat()),
    ])
}
