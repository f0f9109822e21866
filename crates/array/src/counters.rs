// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of a run.

use crate::Probing;

/// Counts of events. `submits = reads + writes + extra_io + extra_writes + refusals` once all requests have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads that arrived.
    pub reads: u64,
    /// Writes that arrived.
    pub writes: u64,
    /// Reads that failed at every replica.
    pub reads_failed: u64,
    /// Writes that failed: at the primary, or at every replica.
    pub writes_failed: u64,
    /// Copies submitted to devices.
    pub submits: u64,
    /// Copies of reads beyond one per read: hedges, clones and failovers after errors.
    pub extra_io: u64,
    /// Copies of writes beyond one per write ([`crate::WriteMode::All`]).
    pub extra_writes: u64,
    /// Copies that a device refused.
    pub refusals: u64,
    /// Decisions of a policy that predicts: revokes (granted or not) and submits by prediction.
    pub predictions: u64,
    /// Revokes, including refusals by devices. A read may be revoked once per replica, except by the last.
    pub revokes: u64,
    /// Reads of a predicting policy that were submitted because no other replica was left.
    pub forced_submits: u64,
    /// Reads sent on to another replica after an error or a time-out.
    pub failovers: u64,
    /// Hedges sent.
    pub hedges: u64,
    /// Reads that the hedge answered first.
    pub hedges_won: u64,
    /// Reads submitted to learn the state of a device: in place of a revoke, or after it was out of service.
    pub probes: u64,
    /// Revokes, hedges and clones that the budgets did not allow.
    pub budget_denied: u64,
    /// Copies that failed with an error.
    pub errors: u64,
    /// Copies that ran into their time limit.
    pub timeouts: u64,
    /// Answers after their time limit, or for a copy that is not in flight.
    pub late: u64,
    /// Reads submitted because they were predicted fast whose latency was above the device's inflection point, or that
    /// were cancelled or ran into their time limit after it.
    pub false_submits: u64,
    /// Revokes although the device would have answered within its inflection point; counted only on devices with
    /// foresight.
    pub false_revokes: u64,
    /// Sampled probes: reads submitted to devices that the policy did not choose ([`crate::Config::probe_share`]).
    pub probing: Probing,
}
