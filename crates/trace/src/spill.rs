// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorts a trace that is out of order and may not fit in memory: sorted runs on disk, then a merge of all of them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linnet_types::{IoRecord, Op};

use crate::error::Error;
use crate::memory::growth;
use crate::order::{About, Merged};
use crate::read::{PROGRESS_EVERY, Records};
use crate::teller::Teller;

/// Records that are sorted at a time, at least and at most: 100 MB, and half as much again while they are sorted.
const RUN_RECORDS: (usize, usize) = (4096, 1 << 21);
/// Bytes that a record of a run takes while it is sorted: its own, and for short runs as many of the sort.
const SORTED_BYTES: u64 = 2 * size_of::<IoRecord>() as u64;
/// Bytes of a stored record: arrival, latency, offset, size, device, tenant, operation, and whether it has a latency.
const STORED_BYTES: usize = 40;
/// Records of one buffer at most, and at least.
const BUFFER_RECORDS: (usize, usize) = (16, 4096);

/// A sorted trace on disk; less than a run stays in memory.
pub(crate) struct Spilled {
    runs: Merged<Run>,
    about: About,
    highest_tenant: u32,
    path: PathBuf,
    teller: Teller,
    /// Records that were returned.
    count: u64,
}

impl Spilled {
    /// Reads all of a trace. What does not fit in a run goes to a file without a name in this directory.
    ///
    /// Of the memory, half is for the run that is sorted, the last of which stays. A third is for the buffers of all
    /// runs together, 256 MiB of the usual 768: 5,000 runs, of 10^10 records, have 50 KiB each.
    pub fn sort(records: Records, folder: &Path, bytes: u64) -> Result<Spilled, Error> {
        let most = usize::try_from(bytes / 2 / SORTED_BYTES).unwrap_or(usize::MAX);
        let buffers = usize::try_from(bytes / 3).unwrap_or(usize::MAX) / size_of::<IoRecord>();
        Spilled::sort_by_runs(records, folder, most.clamp(RUN_RECORDS.0, RUN_RECORDS.1), buffers)
    }

    /// With runs of `most` records, and `buffers` records in the buffers of all runs.
    fn sort_by_runs(mut records: Records, folder: &Path, most: usize, buffers: usize) -> Result<Spilled, Error> {
        let mut file: Option<Arc<File>> = None;
        let mut lengths: Vec<u64> = Vec::new();
        let mut waiting: Vec<IoRecord> = Vec::new();
        let mut highest_tenant = 0;
        let failed = |source| Error::Write { path: folder.to_path_buf(), source, kept: false };
        let path = records.path().to_path_buf();
        let mut at = 0;
        for record in records.by_ref() {
            let record = record?;
            highest_tenant = highest_tenant.max(record.tenant);
            if waiting.len() == most {
                let file = match &mut file {
                    Some(file) => file,
                    none => none.insert(Arc::new(linnet_files::scratch(folder).map_err(failed)?)),
                };
                waiting.sort_by_key(|r| r.arrive_ns);
                for some in waiting.chunks(BUFFER_RECORDS.1) {
                    let bytes: Vec<u8> = some.iter().flat_map(stored).collect();
                    file.write_all_at(&bytes, at).map_err(failed)?;
                    at += bytes.len() as u64;
                }
                lengths.push(waiting.len() as u64);
                waiting.clear();
            }
            if waiting.len() == waiting.capacity() {
                waiting.reserve_exact(growth::<IoRecord>(&path, waiting.len(), most)?);
            }
            waiting.push(record);
        }
        waiting.sort_by_key(|r| r.arrive_ns);
        let each = (buffers / lengths.len().max(1)).clamp(BUFFER_RECORDS.0, BUFFER_RECORDS.1);
        let mut runs = Vec::with_capacity(lengths.len() + 1);
        let mut from = 0;
        for left in lengths {
            let file = file.clone();
            runs.push(Run { file, folder: folder.into(), from, left, each, rows: Vec::new().into_iter() });
            from += left * STORED_BYTES as u64;
        }
        runs.push(Run { file: None, folder: folder.into(), from: 0, left: 0, each, rows: waiting.into_iter() });
        let (about, teller) = (About::of(&records), records.teller());
        Ok(Spilled { runs: Merged::new(runs), about, highest_tenant, path, teller, count: 0 })
    }

    pub fn about(&self) -> &About {
        &self.about
    }

    /// The highest tenant of the trace; 0 for an empty one.
    pub fn highest_tenant(&self) -> u32 {
        self.highest_tenant
    }
}

impl Iterator for Spilled {
    type Item = Result<IoRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.count += 1;
        // The file was read; to merge its runs takes as long again.
        if self.count.is_multiple_of(PROGRESS_EVERY) && !self.teller.go_on() {
            return Some(Err(Error::Stopped { path: self.path.clone() }));
        }
        self.runs.next().map(|next| next.map(|(record, _)| record))
    }
}

/// One sorted run: records in memory, then those in the file.
struct Run {
    file: Option<Arc<File>>,
    folder: PathBuf,
    from: u64,
    left: u64,
    each: usize,
    rows: std::vec::IntoIter<IoRecord>,
}

impl Iterator for Run {
    type Item = Result<IoRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(record) = self.rows.next() {
            return Some(Ok(record));
        }
        let file = self.file.as_ref().filter(|_| self.left > 0)?;
        let some = self.left.min(self.each as u64);
        let mut bytes = vec![0; some as usize * STORED_BYTES];
        if let Err(source) = file.read_exact_at(&mut bytes, self.from) {
            return Some(Err(Error::Write { path: self.folder.clone(), source, kept: false }));
        }
        self.from += bytes.len() as u64;
        self.left -= some;
        match bytes.chunks_exact(STORED_BYTES).map(restored).collect::<io::Result<Vec<IoRecord>>>() {
            Ok(rows) => self.rows = rows.into_iter(),
            Err(source) => return Some(Err(Error::Write { path: self.folder.clone(), source, kept: false })),
        }
        self.rows.next().map(Ok)
    }
}

fn stored(r: &IoRecord) -> [u8; STORED_BYTES] {
    let mut bytes = [0; STORED_BYTES];
    bytes[..8].copy_from_slice(&r.arrive_ns.to_le_bytes());
    bytes[8..16].copy_from_slice(&r.latency_ns.unwrap_or(0).to_le_bytes());
    bytes[16..24].copy_from_slice(&r.offset_bytes.to_le_bytes());
    bytes[24..28].copy_from_slice(&r.size_bytes.to_le_bytes());
    bytes[28..32].copy_from_slice(&r.device.to_le_bytes());
    bytes[32..36].copy_from_slice(&r.tenant.to_le_bytes());
    bytes[36] = u8::from(r.op == Op::Write);
    bytes[37] = u8::from(r.latency_ns.is_some());
    bytes
}

fn restored(bytes: &[u8]) -> io::Result<IoRecord> {
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    if bytes[36] > 1 || bytes[37] > 1 {
        return Err(io::Error::other("what was stored there for a while came back changed"));
    }
    Ok(IoRecord {
        arrive_ns: long(0),
        latency_ns: (bytes[37] == 1).then(|| long(8)),
        offset_bytes: long(16),
        size_bytes: short(24),
        device: short(28),
        tenant: short(32),
        op: if bytes[36] == 1 { Op::Write } else { Op::Read },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Options, open, read_all};

    #[test]
    fn runs_give_the_stable_order_of_the_whole() {
        let folder = std::env::temp_dir().join(format!("linnet-spill-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("in.csv");
        let row = |i: u64| {
            let latency = if i.is_multiple_of(3) { String::new() } else { (i * 5).to_string() };
            let op = if i.is_multiple_of(4) { 'W' } else { 'R' };
            format!("{},{op},{},{},{},{latency},{}\n", i * 7919 % 101, i * 4096, 512 + i, i % 2, i % 9)
        };
        let rows: String = (0..1000).map(row).collect();
        std::fs::write(&path, format!("t_ns,op,offset_bytes,size_bytes,device,latency_ns,tenant\n{rows}")).unwrap();
        let whole = read_all(&path, Options::default()).unwrap().records;
        for most in [1, 7, 999, 1000, 5000] {
            let spilled = Spilled::sort_by_runs(open(&path, Options::default()).unwrap(), &folder, most, 64).unwrap();
            assert_eq!((spilled.highest_tenant(), spilled.about().format), (8, "workload-csv"));
            assert_eq!(spilled.map(Result::unwrap).collect::<Vec<_>>(), whole, "runs of {most}");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "runs have no name");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
