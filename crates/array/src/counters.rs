// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of a run.

use crate::Probing;

/// What happened. These add up: `submits = reads + writes + extra_io + extra_writes + refusals` once all requests ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads that arrived.
    pub reads: u64,
    /// Writes that arrived.
    pub writes: u64,
    /// Reads that failed: every replica did.
    pub reads_failed: u64,
    /// Writes that failed: at the primary, or at every replica.
    pub writes_failed: u64,
    /// Copies handed to devices.
    pub submits: u64,
    /// Copies of reads beyond one per read: hedges, clones and failovers after errors.
    pub extra_io: u64,
    /// Copies of writes beyond one per write ([`crate::WriteMode::All`]).
    pub extra_writes: u64,
    /// Copies that a device itself refused.
    pub refusals: u64,
    /// Decisions of a policy that predicts: revokes wanted and submits by prediction.
    pub predictions: u64,
    /// Revokes carried out, refusals by devices included. A read may be revoked once per replica but the last.
    pub revokes: u64,
    /// Reads of a predicting policy that were submitted because no other replica was left.
    pub forced_submits: u64,
    /// Reads sent on to another replica after an error or a time-out.
    pub failovers: u64,
    /// Hedges sent.
    pub hedges: u64,
    /// Reads that the hedge answered first.
    pub hedges_won: u64,
    /// Reads submitted to learn how a device is: in place of a revoke, or after an absence.
    pub probes: u64,
    /// Revokes, hedges and clones that the budgets did not allow.
    pub budget_denied: u64,
    /// Copies that failed with an error.
    pub errors: u64,
    /// Copies that ran into their time limit.
    pub timeouts: u64,
    /// Answers that came after their time limit, or named nothing that is in flight.
    pub late: u64,
    /// Reads submitted by prediction and slower at the device than its inflection point.
    pub false_submits: u64,
    /// Revokes where the device would have answered within its inflection point; counted where devices can be peeked at.
    pub false_revokes: u64,
    /// Reads submitted where they would not have gone, to learn what the others missed ([`crate::Config::probe_share`]).
    pub probing: Probing,
}
