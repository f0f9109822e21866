// SPDX-License-Identifier: MIT OR Apache-2.0
//! The observer of an NFS mount: the page cache's demands, as for disks, and beside them the reads that the client
//! sends.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use crate::advised::Advised;
#[cfg(not(feature = "bpf"))]
use crate::error::Error;
use crate::error::Result;
use crate::host::Host;
use crate::mounts::{Dev, mounts};
#[cfg(feature = "bpf")]
use crate::nfs::bpf::RpcObserver;
use crate::nfs::rpc::Rpcs;
use crate::nfs::rsize_bytes;
#[cfg(feature = "bpf")]
use crate::observe::best;
use crate::observe::{Lost, Observer, Reader, Sample, Sight};
use crate::openfile::{Descriptor, FileId};

/// Sees both.
pub struct NfsObserver {
    host: Host,
    pages: Box<dyn Observer>,
    #[cfg(feature = "bpf")]
    rpcs: RpcObserver,
    rsizes: HashMap<Dev, u64>,
    /// Reads and answers whose file had no demand since: they count with its next one.
    early: HashMap<FileId, Rpcs>,
    looked: Instant,
    sight: Sight,
}

/// What was sent for a file that nobody demanded for so long belongs to no window.
const EARLY_NS: u64 = 2_000_000_000;

impl NfsObserver {
    /// Starts both observers. `only`: one file system, where no second mount will take its place.
    #[cfg(feature = "bpf")]
    pub fn start(host: &Host, only: Option<Dev>) -> Result<NfsObserver> {
        let rpcs = RpcObserver::start(host, only)?;
        let pages = best(host, only)?;
        let mut sight = pages.sight().clone();
        sight.limits.extend(rpcs.limits().iter().cloned());
        Ok(NfsObserver {
            host: host.clone(),
            pages,
            rpcs,
            rsizes: HashMap::new(),
            early: HashMap::new(),
            looked: Instant::now(),
            sight,
        })
    }

    /// This build cannot observe.
    #[cfg(not(feature = "bpf"))]
    pub fn start(_host: &Host, _only: Option<Dev>) -> Result<NfsObserver> {
        let what = "this build has no BPF observer (it was compiled without clang)".into();
        Err(Error::Observer { what })
    }

    #[cfg(feature = "bpf")]
    fn sent(&mut self) -> Result<HashMap<FileId, Rpcs>> {
        self.rpcs.look()
    }

    #[cfg(not(feature = "bpf"))]
    fn sent(&mut self) -> Result<HashMap<FileId, Rpcs>> {
        Ok(HashMap::new())
    }

    fn rsize(&mut self, dev: Dev) -> u64 {
        if !self.rsizes.contains_key(&dev) {
            let all = mounts(&self.host, "self");
            let rsize = all.iter().find(|mount| mount.dev == dev).and_then(rsize_bytes).unwrap_or(0);
            self.rsizes.insert(dev, u64::from(rsize));
        }
        self.rsizes[&dev]
    }
}

impl Observer for NfsObserver {
    fn sight(&self) -> &Sight {
        &self.sight
    }

    fn look(&mut self) -> Result<Vec<Sample>> {
        let mut sent = std::mem::take(&mut self.early);
        for (file, rpcs) in self.sent()? {
            let sum = sent.entry(file).or_default();
            *sum = sum.plus(rpcs);
        }
        let elapsed = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let mut samples = self.pages.look()?;
        // Where several control groups read a file, its reads are told of the one that brought most pages; of those who
        // read with a value of the owner's, only where nobody else reads.
        samples.sort_by_key(|sample| (sample.reader == Reader::Advised, std::cmp::Reverse(sample.counts.added)));
        for sample in &mut samples {
            let rpcs = sent.remove(&sample.file).unwrap_or_default();
            let rsize_bytes = self.rsize(sample.file.dev);
            sample.rpcs = Rpcs { rsize_bytes, elapsed_ns: rpcs.elapsed_ns.max(elapsed_ns), ..rpcs };
        }
        sent.retain(|_, rpcs| rpcs.elapsed_ns < EARLY_NS);
        self.early = sent;
        Ok(samples)
    }

    fn descriptors(&mut self, files: &[FileId]) -> Result<Vec<Descriptor>> {
        self.pages.descriptors(files)
    }

    fn advised(&mut self, soon: bool) -> Result<Rc<Advised>> {
        self.pages.advised(soon)
    }

    fn watch_only(&mut self, only: Option<Dev>) -> Result<bool> {
        // Another mount may have a number by now.
        self.rsizes.clear();
        let restarted = self.pages.watch_only(only)?;
        #[cfg(feature = "bpf")]
        if restarted {
            self.rpcs = RpcObserver::start(&self.host, only)?;
        }
        Ok(restarted)
    }

    #[cfg(feature = "bpf")]
    fn lost(&self) -> Result<Lost> {
        let (pages, rpcs) = (self.pages.lost()?, self.rpcs.lost()?);
        Ok(Lost {
            no_room: pages.no_room + rpcs.no_room,
            skipped: pages.skipped + rpcs.skipped,
            advice: pages.advice + rpcs.advice,
        })
    }

    #[cfg(not(feature = "bpf"))]
    fn lost(&self) -> Result<Lost> {
        self.pages.lost()
    }
}
