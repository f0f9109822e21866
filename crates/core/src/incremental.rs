// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tracker and a network in one; most of the work is done when reads complete (`core/incremental.c`). The decisions
//! equal those of the plain network on the tracker's digits, to the bit.

use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use linnet_types::Nanos;

use crate::memory::{Memory, with_scratch};
use crate::{Candidate, DIGITS, Error, Network, Tracker, ffi, simd};

/// How much of a network is computed before the submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precompute {
    /// Nothing: the whole network runs on submit. First layers of less than 16 outputs, or wider than 16 bits.
    Plain,
    /// The first layer's sums of the history are kept. Networks of more than two layers.
    First,
    /// The outputs of the first layer are also sorted, so that most of them are settled before a read arrives. Two
    /// layers.
    Pruned,
}

/// Shared by all incremental networks of one network.
pub(crate) struct Tables {
    core: ffi::Tables,
    _memory: Memory,
}

// SAFETY: nothing changes after construction; the pointers lead into `_memory`, statics, and the network that owns this.
unsafe impl Send for Tables {}
// SAFETY: as for Send.
unsafe impl Sync for Tables {}

impl Tables {
    pub fn new(network: &Network, network_core: &ffi::Network, set: simd::Set) -> Result<Tables, Error> {
        // SAFETY: all zeros is a valid `ffi::Tables`; the network is placed, and owns this.
        unsafe {
            let mut core: ffi::Tables = std::mem::zeroed();
            if ffi::linnet_tables_plan(&mut core, network_core, simd::prune(set)) < 0 {
                return Err(Error::Shape(format!("{network:?} does not take the {DIGITS} digits to two outputs")));
            }
            let mut memory = Memory::new(core.memory_size);
            if ffi::linnet_tables_place(&mut core, memory.as_mut_ptr(), memory.size()) < 0 {
                return Err(Error::Shape("the core refuses its tables".into()));
            }
            Ok(Tables { core, _memory: memory })
        }
    }
}

/// One device: its state, and the prediction for a read that arrives now.
///
/// Any number of threads may use it at once. Submits take no lock; completions of reads take one that belongs to this
/// device. A decision is that of the network for the given snapshot and a history that existed during the call.
pub struct IncrementalNetwork {
    /// Owned by `_memory`.
    core: NonNull<ffi::IncrementalNetwork>,
    _memory: Memory,
    /// Keeps alive what `core` points to.
    network: Network,
    scratch_size: usize,
    completing: Mutex<()>,
}

// SAFETY: the C functions may run concurrently, except completions of reads, which `completing` serialises.
unsafe impl Send for IncrementalNetwork {}
// SAFETY: as for Send.
unsafe impl Sync for IncrementalNetwork {}

impl IncrementalNetwork {
    /// An idle device without history. Fails for a network that does not map 31 digits to two outputs.
    pub fn new(network: &Network) -> Result<IncrementalNetwork, Error> {
        IncrementalNetwork::with_tracker(network, &Tracker::new())
    }

    /// Continues from the state of this tracker.
    pub fn with_tracker(network: &Network, tracker: &Tracker) -> Result<IncrementalNetwork, Error> {
        let tables = &network.tables()?.core;
        let mut memory = Memory::new(tables.incremental_size);
        let core = memory.as_mut_ptr().cast::<ffi::IncrementalNetwork>();
        // SAFETY: memory of the size and alignment that C requires. The tables belong to the network, which this
        // incremental network keeps at a fixed address.
        if unsafe { ffi::linnet_incremental_init(core, memory.size(), tables, tracker) } < 0 {
            return Err(Error::Shape("the core refuses the incremental network".into()));
        }
        let scratch_size = tables.scratch_size;
        let Some(core) = NonNull::new(core) else {
            return Err(Error::Shape("an incremental network of no size".into()));
        };
        Ok(IncrementalNetwork {
            core,
            _memory: memory,
            network: network.clone(),
            scratch_size,
            completing: Mutex::new(()),
        })
    }

    /// How much of the network is computed before the submit.
    pub fn precompute(&self) -> Precompute {
        match self.network.tables().map_or(0, |tables| tables.core.precompute) {
            0 | 1 => Precompute::Plain,
            2 => Precompute::First,
            _ => Precompute::Pruned,
        }
    }

    /// Bytes of this device's state, without the network and its tables, which incremental networks share.
    pub fn size_bytes(&self) -> usize {
        size_of::<IncrementalNetwork>() + self._memory.size()
    }

    /// An I/O arrives. Returns its snapshot: the 4 KiB pages outstanding, reads and writes, including this I/O.
    pub fn arrive(&self, size_bytes: u32) -> u32 {
        // SAFETY: `core` was initialised and lives as long as `self`; so in every call below.
        unsafe { ffi::linnet_incremental_arrive(self.core.as_ptr(), size_bytes) }
    }

    /// The snapshot that an I/O of this size would get if it arrived now.
    pub fn snapshot(&self, size_bytes: u32) -> u32 {
        // SAFETY: `core` was initialised in `new` and lives as long as this; reading may run concurrently.
        unsafe { ffi::linnet_incremental_snapshot(self.core.as_ptr(), size_bytes) }
    }

    /// A read completes and enters the history, with the `snapshot` that its arrival returned. The history is computed
    /// by [`IncrementalNetwork::catch_up`]. Until then the incremental network is behind, and uses the older history.
    pub fn note_read(&self, size_bytes: u32, latency_ns: Nanos, snapshot: u32) {
        let _alone = self.completing.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `core` lives as long as this, and the lock makes this the only completion.
        unsafe { ffi::linnet_incremental_note_read(self.core.as_ptr(), size_bytes, latency_ns, snapshot) }
    }

    /// Whether reads have been noted that are not yet processed.
    pub fn is_behind(&self) -> bool {
        // SAFETY: `core` lives as long as this; C reads an atomic.
        unsafe { ffi::linnet_incremental_behind(self.core.as_ptr()) != 0 }
    }

    /// Processes the noted reads, for an I/O of this snapshot.
    pub fn catch_up(&self, snapshot: u32) {
        let _alone = self.completing.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `core` lives as long as this, and the lock makes this the only completion.
        unsafe { ffi::linnet_incremental_catch_up(self.core.as_ptr(), snapshot) }
    }

    /// A write completes, or any I/O leaves without completing: its pages are subtracted, the history stays.
    pub fn withdraw(&self, size_bytes: u32) {
        // SAFETY: `core` lives as long as this; C changes an atomic.
        unsafe { ffi::linnet_incremental_withdraw(self.core.as_ptr(), size_bytes) }
    }

    /// True to revoke an I/O whose arrival returned `snapshot`; equal to [`Network::decide`].
    pub fn decide(&self, snapshot: u32) -> bool {
        // SAFETY: `core` lives as long as this, and the scratch memory has the size that it needs.
        self.scratched(|scratch| unsafe { ffi::linnet_incremental_decide(self.core.as_ptr(), snapshot, scratch) }) == 1
    }

    /// Equal to [`Network::score`].
    pub fn score(&self, snapshot: u32) -> i64 {
        let mut score = i64::MIN;
        // SAFETY: as in `decide`; C writes one score.
        self.scratched(|scratch| unsafe {
            ffi::linnet_incremental_score(self.core.as_ptr(), snapshot, scratch, &mut score)
        });
        score
    }

    /// The prediction for a read of this size that arrives now, from all reads that have completed: `known` and `slow`.
    /// Unknown until four have completed.
    pub(crate) fn describe(&self, size_bytes: u32, candidate: &mut Candidate) {
        if self.is_behind() {
            self.catch_up(self.snapshot(size_bytes));
        }
        // SAFETY: as in `decide`; C writes one candidate of its layout.
        self.scratched(|scratch| unsafe {
            ffi::linnet_incremental_describe(self.core.as_ptr(), size_bytes, scratch, candidate);
        });
    }

    /// Its memory, for a replica.
    pub(crate) fn core(&self) -> *mut ffi::IncrementalNetwork {
        self.core.as_ptr()
    }

    /// The state as a tracker: a history that existed during the call, and the pages pending now.
    pub fn tracker(&self) -> Tracker {
        let mut tracker = Tracker::new();
        // SAFETY: `core` lives as long as this; C fills a tracker of its layout.
        unsafe { ffi::linnet_incremental_tracker(self.core.as_ptr(), &mut tracker) };
        tracker
    }

    /// 4 KiB pages outstanding, reads and writes.
    pub fn pending_pages(&self) -> u32 {
        // SAFETY: `core` lives as long as this; C reads an atomic.
        unsafe { ffi::linnet_incremental_pending_pages(self.core.as_ptr()) }
    }

    /// Completed reads in the history, 0..=4.
    pub fn history_len(&self) -> u32 {
        // SAFETY: `core` lives as long as this; C reads an atomic.
        unsafe { ffi::linnet_incremental_history_len(self.core.as_ptr()) }
    }

    fn scratched<T>(&self, work: impl FnOnce(*mut c_void) -> T) -> T {
        if self.scratch_size == 0 {
            return work(ptr::null_mut());
        }
        with_scratch(self.scratch_size, work)
    }
}

impl fmt::Debug for IncrementalNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncrementalNetwork").field("network", &self.network).field("tracker", &self.tracker()).finish()
    }
}
