// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of one device that serves the same data as others (`core/replica.c`), with its memory.

use std::fmt;
use std::ptr;

use linnet_types::{Nanos, Request};

use crate::inflight::{InflightIo, Raw as InflightTracker};
use crate::{Candidate, Error, INFLIGHT_FEATURES, IncrementalNetwork, Network, Schema, Settings, Tracker, ffi};

const UNTRACKED: u32 = u32::MAX;
/// Places for I/Os in flight that are allocated when the first one arrives.
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
    probing: u16,
    reads_failed: u16,
    return_event: u32,
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

const _: () = assert!(size_of::<InflightTracker>() == 360 && size_of::<InflightIo>() == 32);
const _: () = assert!(size_of::<Raw>() == 472 && size_of::<Flight>() == 32);

impl Flight {
    /// When it arrived.
    pub fn arrived_ns(&self) -> Nanos {
        self.arrived_ns
    }

    /// Whether it is a probe: because the caller said so, or because the replica was out of service.
    pub fn is_probe(&self) -> bool {
        self.probe
    }
}

/// One replica. It tracks the arrival and end of every I/O, and gives its state to a decision.
pub struct Replica {
    raw: Raw,
    /// `raw.ios` points into it. Empty if the features of `linnet-1` are not needed.
    ios: Vec<InflightIo>,
    /// `raw.net` points into its memory.
    net: Option<IncrementalNetwork>,
}

// SAFETY: the pointers lead into memory that the replica owns. Only the incremental network changes behind `&self`, and
// several threads may use it.
unsafe impl Send for Replica {}
// SAFETY: as for Send.
unsafe impl Sync for Replica {}

// SAFETY of the calls: the layouts are C's; `raw.ios` has the places that C links, `raw.net` the memory of an
// incremental network.
impl Replica {
    /// An idle replica without history. Reads above `inflection_ns` are slow; with 0 it is unknown, and no read is
    /// slow. With `tracked` it has an in-flight tracker, which [`Replica::features`] needs.
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

    /// Sets its network, or none. The new network continues from the history. An error changes nothing.
    ///
    /// # Errors
    /// For a network that does not map 31 digits to two outputs.
    pub fn set_network(&mut self, network: Option<&Network>) -> Result<(), Error> {
        let net = network.map(IncrementalNetwork::new).transpose()?;
        let core = net.as_ref().map_or(ptr::null_mut(), IncrementalNetwork::core);
        // SAFETY: the memory belongs to `net`, which this replica keeps from here on.
        unsafe { ffi::linnet_replica_set_incremental(&mut self.raw, core) };
        self.net = net;
        Ok(())
    }

    /// An I/O is submitted to it. Keep the flight until it ends. Allocates if more are in flight than ever before.
    #[inline]
    pub fn arrive(&mut self, settings: &Settings, now: Nanos, request: &Request, probe: bool) -> Flight {
        let Request { offset_bytes, size_bytes, .. } = *request;
        if self.raw.free == UNTRACKED && !self.ios.is_empty() {
            self.grow();
        }
        let mut flight = Flight::default();
        let (is_read, probe) = (i32::from(request.op.is_read()), i32::from(probe));
        // SAFETY: a free place is there, since `grow` made one; C writes one flight of its layout.
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
        // SAFETY: the memory is `ios`, of which C has linked the first `from` places.
        unsafe {
            ffi::linnet_replica_grow(&mut self.raw, self.ios.as_mut_ptr(), from as u32, self.ios.len() as u32);
        }
    }

    /// It completes; returns its latency.
    ///
    /// # Panics
    /// Here and below, if the flight cannot belong to this replica.
    #[inline]
    pub fn complete(&mut self, flight: &Flight, now: Nanos) -> Nanos {
        self.check(flight);
        // SAFETY: `check` saw that the flight is one of this replica's places.
        unsafe { ffi::linnet_replica_complete(&mut self.raw, flight, now) }
    }

    /// It fails with an error of the replica, or has timed out.
    pub fn fail(&mut self, settings: &Settings, flight: &Flight, now: Nanos) {
        self.check(flight);
        // SAFETY: `check` saw that the flight is one of this replica's places.
        unsafe { ffi::linnet_replica_fail(&mut self.raw, settings, flight, now) }
    }

    /// It leaves without a result to learn from: cancelled or refused.
    pub fn withdraw(&mut self, flight: &Flight, now: Nanos) {
        self.check(flight);
        // SAFETY: `check` saw that the flight is one of this replica's places.
        unsafe { ffi::linnet_replica_withdraw(&mut self.raw, flight, now) }
    }

    fn check(&self, flight: &Flight) {
        let placed = flight.place == UNTRACKED || (flight.place as usize) < self.ios.len();
        assert!(placed && self.raw.in_flight > 0, "{flight:?} is not in flight here");
    }

    /// A read was revoked from it.
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

    /// When a read last completed or a probe was last sent: the age of its state.
    #[inline]
    pub fn learnt_ns(&self) -> Nanos {
        self.raw.learnt_ns
    }

    /// Expected wait of a read by the averages: EWMA latency x (in flight + 1); 1 ms x in flight before a read has completed.
    pub fn expected_ns(&self) -> u64 {
        // SAFETY: a pure function of two numbers.
        unsafe { ffi::linnet_expected_ns(self.raw.ewma_ns, self.raw.in_flight) }
    }

    /// True while errors keep it out of service.
    #[inline]
    pub fn is_out(&self, now: Nanos) -> bool {
        // SAFETY: the layout is C's; C only reads.
        self.raw.errors_in_row > 0 && unsafe { ffi::linnet_replica_is_out(&self.raw, now) != 0 }
    }

    /// 4 KiB pages in flight, reads and writes.
    pub fn pending_pages(&self) -> u32 {
        self.net.as_ref().map_or(self.raw.tracker.pending_pages(), IncrementalNetwork::pending_pages)
    }

    /// The current features of LinnOS.
    pub fn tracker(&self) -> Tracker {
        match &self.net {
            Some(net) => {
                net.catch_up(net.pending_pages());
                net.tracker()
            }
            None => self.raw.tracker,
        }
    }

    /// Its state for a read that arrives now, without models.
    #[inline]
    pub fn describe(&self, now: Nanos, candidate: &mut Candidate) {
        // SAFETY: the layouts are C's; C reads one and writes the other.
        unsafe { ffi::linnet_replica_describe(&self.raw, now, candidate) }
    }

    /// The features of a read that arrives now. `None` without an in-flight tracker.
    pub fn features(&self, schema: Schema, now: Nanos, request: &Request) -> Option<[u8; INFLIGHT_FEATURES]> {
        if self.ios.is_empty() {
            return None;
        }
        let mut features = [0; INFLIGHT_FEATURES];
        let Request { offset_bytes, size_bytes, .. } = *request;
        // SAFETY: C writes as many features as the array has.
        unsafe {
            let to = features.as_mut_ptr();
            ffi::linnet_replica_features(&self.raw, schema as u32, now, offset_bytes, size_bytes, to);
        }
        Some(features)
    }

    /// Runs its network for a read of this size: `known` and `slow`. Unknown without a network.
    pub fn ask(&self, size_bytes: u32, candidate: &mut Candidate) {
        if let Some(net) = &self.net {
            net.describe(size_bytes, candidate);
        }
    }

    /// The network's score of a read of this size; `None` if [`Replica::ask`] gives no prediction.
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

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_types::Op;

    #[test]
    fn a_place_is_used_again_when_its_read_has_ended() {
        let (settings, mut replica) = (Settings::default(), Replica::new(0, true));
        for now in 0..2 * PLACES as Nanos {
            let flight = replica.arrive(&settings, now, &Request::new(Op::Read, 0, 4096), false);
            replica.complete(&flight, now);
        }
        assert_eq!(replica.ios.len(), PLACES);
    }
}
