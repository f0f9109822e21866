// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of one device that serves the same data as others (`core/replica.c`), with the memory that it needs.

use std::fmt;
use std::ptr;

use linnet_types::{Nanos, Request};

use crate::inflight::{InflightIo, Raw as InflightTracker};
use crate::{Candidate, Error, INFLIGHT_FEATURES, IncrementalNetwork, Network, Settings, Tracker, ffi};

const UNTRACKED: u32 = u32::MAX;
/// Places for I/Os in flight when the first one arrives.
const PLACES: usize = 64;

/// `struct linnet_replica`.
#[repr(C)]
pub struct Raw {
    inflight: InflightTracker,
    tracker: Tracker,
    net: *mut ffi::IncrementalNetwork,
    ios: *mut InflightIo,
    events: u64,
    latest_ns: Nanos,
    ewma_ns: Nanos,
    learnt_ns: Nanos,
    out_until_ns: Nanos,
    backoff_ns: Nanos,
    free: u32,
    in_flight: u32,
    errors_in_row: u32,
    revokes_in_row: u32,
    probing: u32,
    spare: u32,
}

/// One I/O at a replica, from its arrival to its end (`struct linnet_flight`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Flight {
    arrived_ns: Nanos,
    event: u64,
    place: u32,
    snapshot: u32,
    size_bytes: u32,
    is_read: bool,
    probe: bool,
    spare: u16,
}

const _: () = assert!(size_of::<InflightTracker>() == 224 && size_of::<InflightIo>() == 32);
const _: () = assert!(size_of::<Raw>() == 352 && size_of::<Flight>() == 32);

impl Flight {
    /// When it arrived.
    pub fn arrived_ns(&self) -> Nanos {
        self.arrived_ns
    }

    /// Whether it was sent to learn how the replica is: as the caller said, or because the replica was out of service.
    pub fn is_probe(&self) -> bool {
        self.probe
    }
}

/// One replica. Told of every I/O's arrival and end, it describes itself to a decision.
pub struct Replica {
    raw: Raw,
    /// `raw.ios` points into it. Empty: nothing wants the features of `linnet-1`.
    ios: Vec<InflightIo>,
    /// `raw.net` points into its memory.
    net: Option<IncrementalNetwork>,
}

// SAFETY: the pointers lead into memory that the replica owns. What changes behind `&self` is the incremental network's, which
// may be asked by several threads.
unsafe impl Send for Replica {}
unsafe impl Sync for Replica {}

// SAFETY of the calls: the layouts are C's; `raw.ios` has the places that C links, `raw.net` an incremental network's memory.
impl Replica {
    /// An idle replica without history. Reads above `inflection_ns` are slow; 0: it is unknown, and none is. It has an
    /// in-flight tracker when somebody wants [`Replica::features`].
    pub fn new(inflection_ns: Nanos, tracked: bool) -> Replica {
        let known_ns = if inflection_ns == 0 { Nanos::MAX } else { inflection_ns };
        let mut ios = vec![InflightIo::default(); if tracked { PLACES } else { 0 }];
        let mut raw = std::mem::MaybeUninit::uninit();
        // SAFETY: C sets every field.
        let raw = unsafe {
            ffi::linnet_replica_init(raw.as_mut_ptr(), known_ns, ios.as_mut_ptr(), ios.len() as u32);
            raw.assume_init()
        };
        Replica { raw, ios, net: None }
    }

    /// Puts this network to work, or none. It goes on from the history so far. One that is refused changes nothing.
    ///
    /// # Errors
    /// For a network that does not take the 31 digits to two outputs.
    pub fn set_network(&mut self, network: Option<&Network>) -> Result<(), Error> {
        let net = network.map(IncrementalNetwork::new).transpose()?;
        let (core, size, tables) = match &net {
            Some(net) => net.parts()?,
            None => (ptr::null_mut(), 0, ptr::null()),
        };
        if unsafe { ffi::linnet_replica_set_incremental(&mut self.raw, core, size, tables) } < 0 {
            return Err(Error::Shape("the core refuses the incremental network".into()));
        }
        self.net = net;
        Ok(())
    }

    /// An I/O is handed to it. Keep the flight until it ends. Allocates when more are in flight than ever before.
    #[inline]
    pub fn arrive(&mut self, settings: &Settings, now: Nanos, request: &Request, probe: bool) -> Flight {
        let Request { offset_bytes, size_bytes, .. } = *request;
        if self.raw.free == UNTRACKED && !self.ios.is_empty() {
            self.grow();
        }
        let mut flight = Flight::default();
        let (is_read, probe) = (i32::from(request.op.is_read()), i32::from(probe));
        unsafe {
            ffi::linnet_replica_arrive(
                &mut self.raw,
                settings,
                &mut flight,
                now,
                is_read,
                probe,
                offset_bytes,
                size_bytes,
            );
        }
        flight
    }

    #[cold]
    fn grow(&mut self) {
        let from = self.ios.len();
        self.ios.resize(2 * from, InflightIo::default());
        unsafe {
            ffi::linnet_replica_grow(&mut self.raw, self.ios.as_mut_ptr(), from as u32, self.ios.len() as u32);
        }
    }

    /// It completes; returns its latency.
    ///
    /// # Panics
    /// Here and below, for a flight that cannot be one of this replica's.
    #[inline]
    pub fn complete(&mut self, flight: &Flight, now: Nanos) -> Nanos {
        self.check(flight);
        unsafe { ffi::linnet_replica_complete(&mut self.raw, flight, now) }
    }

    /// It ends with an error of the replica, or has taken too long.
    pub fn fail(&mut self, settings: &Settings, flight: &Flight, now: Nanos) {
        self.check(flight);
        unsafe { ffi::linnet_replica_fail(&mut self.raw, settings, flight, now) }
    }

    /// It leaves without an answer worth learning from: cancelled or refused.
    pub fn withdraw(&mut self, flight: &Flight, now: Nanos) {
        self.check(flight);
        unsafe { ffi::linnet_replica_withdraw(&mut self.raw, flight, now) }
    }

    fn check(&self, flight: &Flight) {
        let placed = flight.place == UNTRACKED || (flight.place as usize) < self.ios.len();
        assert!(placed && self.raw.in_flight > 0, "{flight:?} is not in flight here");
    }

    /// A read was turned away from it.
    pub fn note_revoke(&mut self) {
        self.raw.revokes_in_row = self.raw.revokes_in_row.saturating_add(1);
    }

    /// I/Os that have not ended.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.raw.in_flight
    }

    /// Moving average of read latency; 0 before the first read.
    #[inline]
    pub fn ewma_ns(&self) -> Nanos {
        self.raw.ewma_ns
    }

    /// When a read last completed or a probe was last sent: the age of what is known of it.
    #[inline]
    pub fn learnt_ns(&self) -> Nanos {
        self.raw.learnt_ns
    }

    /// What a read would wait by the averages: EWMA latency x (in flight + 1). 0 before the first read.
    pub fn expected_ns(&self) -> u64 {
        unsafe { ffi::linnet_expected_ns(self.raw.ewma_ns, self.raw.in_flight) }
    }

    /// True while errors keep it out of service.
    #[inline]
    pub fn is_out(&self, now: Nanos) -> bool {
        self.raw.errors_in_row > 0 && unsafe { ffi::linnet_replica_is_out(&self.raw, now) != 0 }
    }

    /// 4 KiB pages in flight, reads and writes.
    pub fn pending_pages(&self) -> u32 {
        self.net.as_ref().map_or(self.raw.tracker.pending_pages(), IncrementalNetwork::pending_pages)
    }

    /// The features of LinnOS, up to now.
    pub fn tracker(&self) -> Tracker {
        match &self.net {
            Some(net) => {
                net.catch_up(net.pending_pages());
                net.tracker()
            }
            None => self.raw.tracker,
        }
    }

    /// What a read that arrives now is to be told of it, models aside.
    #[inline]
    pub fn describe(&self, now: Nanos, candidate: &mut Candidate) {
        unsafe { ffi::linnet_replica_describe(&self.raw, now, candidate) }
    }

    /// The features of `linnet-1` of a read that arrives now. Nothing when it has no in-flight tracker.
    pub fn features(&self, now: Nanos, request: &Request) -> Option<[u8; INFLIGHT_FEATURES]> {
        if self.ios.is_empty() {
            return None;
        }
        let mut features = [0; INFLIGHT_FEATURES];
        let Request { offset_bytes, size_bytes, .. } = *request;
        unsafe { ffi::linnet_replica_features(&self.raw, now, offset_bytes, size_bytes, features.as_mut_ptr()) };
        Some(features)
    }

    /// Asks its network about a read of this size: `known` and `slow`. Without a network nothing is known.
    pub fn ask(&self, size_bytes: u32, candidate: &mut Candidate) {
        if let Some(net) = &self.net {
            net.describe(size_bytes, candidate);
        }
    }

    /// The score that its network gives a read of this size; nothing where [`Replica::ask`] knows nothing.
    pub fn network_score(&self, size_bytes: u32) -> Option<i64> {
        let (net, mut candidate) = (self.net.as_ref()?, Candidate::default());
        net.describe(size_bytes, &mut candidate);
        candidate.known.then(|| net.score(net.snapshot(size_bytes)))
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Raw { events, ewma_ns, in_flight, .. } = &self.raw;
        f.debug_struct("Replica")
            .field("events", events)
            .field("ewma_ns", ewma_ns)
            .field("in_flight", in_flight)
            .finish_non_exhaustive()
    }
}
