// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF observer of an NFS client's reads: loads `bpf/nfs.bpf.c`, which was compiled when we were.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aya::maps::HashMap as BpfHashMap;
use aya::programs::{BtfTracePoint, TracePoint};
use aya::{Btf, Ebpf, EbpfLoader, Pod};

use crate::error::Result;
use crate::host::Host;
use crate::mounts::Dev;
use crate::nfs::rpc::{Cell, Rpcs};
use crate::nfs::tracefs::offsets;
use crate::observe::{Lost, causes, not_seen, refused, skipped, sum};
use crate::openfile::FileId;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/nfs.bpf.o"));
/// Files without reads are forgotten after this long, so that the map has room.
const IDLE: Duration = Duration::from_secs(30);
const LOST: u32 = 0;
const RECLAIMED: u32 = 1;

/// `struct nfs_file`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
struct Key {
    fileid: u64,
    dev: u32,
    zero: u32,
}

// SAFETY: both are plain numbers without padding, as the C side declares them.
unsafe impl Pod for Key {}
// SAFETY: as above.
unsafe impl Pod for Cell {}

struct Known {
    total: Rpcs,
    active: Instant,
}

/// The running observer. Dropping it detaches the programs.
pub struct RpcObserver {
    ebpf: Ebpf,
    known: HashMap<Key, Known>,
    reclaimed: u64,
    looked: Instant,
    limits: Vec<String>,
}

impl RpcObserver {
    /// Attaches to the tracepoints of the module `nfs`, which a mount has loaded. `only`: one file system.
    pub fn start(host: &Host, only: Option<Dev>) -> Result<RpcObserver> {
        let btf = Btf::from_sys_fs().map_err(|error| refused(causes(&error)))?;
        let [read_dev, read_fileid, read_offset] =
            offsets(host, "nfs/nfs_initiate_read", [("dev", 4), ("fileid", 8), ("offset", 8)])?;
        let done = [("dev", 4), ("fileid", 8), ("offset", 8), ("res_count", 4), ("error", 4)];
        let [done_dev, done_fileid, done_offset, done_count, done_error] =
            offsets(host, "nfs/nfs_readpage_done", done)?;
        let reclaim = offsets(host, "vmscan/mm_vmscan_lru_shrink_inactive", [("nr_reclaimed", 8)]);
        let [nr_reclaimed] = *reclaim.as_ref().unwrap_or(&[0]);
        let only = only.map_or(0, Dev::to_kernel);
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("only_dev", &only, true)
            .override_global("read_dev", &read_dev, true)
            .override_global("read_fileid", &read_fileid, true)
            .override_global("read_offset", &read_offset, true)
            .override_global("done_dev", &done_dev, true)
            .override_global("done_fileid", &done_fileid, true)
            .override_global("done_offset", &done_offset, true)
            .override_global("done_count", &done_count, true)
            .override_global("done_error", &done_error, true)
            .override_global("nr_reclaimed", &nr_reclaimed, true)
            .load(OBJECT)
            .map_err(|error| {
                refused(format!("the BPF object cannot be loaded ({}); it needs root and BPF", causes(&error)))
            })?;
        for name in ["nfs_initiate_read", "nfs_readpage_done"] {
            attach(&mut ebpf, "nfs", name, name)?;
        }
        let mut limits = Vec::new();
        let reclaim = reclaim.and_then(|_| attach(&mut ebpf, "vmscan", "mm_vmscan_lru_shrink_inactive", "nfs_reclaim"));
        if let Err(error) = reclaim {
            limits.push(not_seen("pages that the machine reclaims", &[error]));
        }
        if let Err(error) = attach_pages(&mut ebpf, &btf) {
            limits.push(not_seen("the order in which pages enter the page cache", &[error]));
        }
        Ok(RpcObserver { ebpf, known: HashMap::new(), reclaimed: 0, looked: Instant::now(), limits })
    }

    /// In words, what cannot be seen.
    pub fn limits(&self) -> &[String] {
        &self.limits
    }

    /// What was not counted since the start.
    pub fn lost(&self) -> Result<Lost> {
        Ok(Lost { no_room: sum(&self.ebpf, "totals", LOST)?, skipped: skipped(&self.ebpf), advice: 0 })
    }

    /// What was sent for each file since the last look. Read sizes are left at 0.
    pub fn look(&mut self) -> Result<HashMap<FileId, Rpcs>> {
        let now = Instant::now();
        let elapsed_ns = u64::try_from((now - self.looked).as_nanos()).unwrap_or(u64::MAX);
        self.looked = now;
        let all = sum(&self.ebpf, "totals", RECLAIMED)?;
        let reclaimed = all.saturating_sub(self.reclaimed);
        self.reclaimed = all;
        let map = self.ebpf.map("nfs_files").expect("in the object");
        let map: BpfHashMap<_, Key, Cell> = BpfHashMap::try_from(map).expect("its key and value");
        let mut found = HashMap::new();
        // A file that is forgotten while we look ends nothing.
        for (key, cell) in map.iter().flatten() {
            let total = cell.rpcs();
            let known = self.known.entry(key).or_insert(Known { total: Rpcs::default(), active: now });
            let since = total.since(known.total);
            known.total = total;
            if !since.is_idle() {
                known.active = now;
                let file = FileId { dev: Dev::from_kernel(key.dev), inode: key.fileid };
                found.insert(file, Rpcs { reclaimed, elapsed_ns, ..since });
            }
        }
        self.forget(now);
        Ok(found)
    }

    fn forget(&mut self, now: Instant) {
        let old: Vec<Key> = self.known.iter().filter(|(_, k)| now - k.active > IDLE).map(|(key, _)| *key).collect();
        let Some(map) = self.ebpf.map_mut("nfs_files") else { return };
        let Ok(mut map) = BpfHashMap::<_, Key, Cell>::try_from(map) else { return };
        for key in old {
            let _ = map.remove(&key);
            self.known.remove(&key);
        }
    }
}

fn attach(ebpf: &mut Ebpf, category: &str, tracepoint: &str, program: &str) -> Result<()> {
    let program: &mut TracePoint =
        ebpf.program_mut(program).expect("in the object").try_into().expect("a tracepoint program");
    let attached = program.load().and_then(|()| program.attach(category, tracepoint));
    attached.map(|_| ()).map_err(|error| refused(format!("{category}/{tracepoint}: {}", causes(&error))))
}

fn attach_pages(ebpf: &mut Ebpf, btf: &Btf) -> Result<()> {
    let tracepoint = "mm_filemap_add_to_page_cache";
    let program: &mut BtfTracePoint =
        ebpf.program_mut("nfs_page").expect("in the object").try_into().expect("a tracepoint program");
    let attached = program.load(tracepoint, btf).and_then(|()| program.attach());
    attached.map(|_| ()).map_err(|error| refused(format!("{tracepoint}: {}", causes(&error))))
}
