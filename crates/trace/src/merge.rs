// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merges the traces of workloads that will share a drive.

use linnet_types::IoRecord;

use crate::error::Error;

/// How the records of a merged trace get their tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedTenants {
    /// Trace i becomes tenant i.
    OneEach,
    /// Each trace keeps its own tenants, raised so that they begin above the highest tenant of the previous trace.
    Kept,
}

/// The offset to add to the tenants of each trace, whose highest tenants these are.
pub(crate) fn raises_of(highest: impl Iterator<Item = u32>) -> Result<Vec<u32>, Error> {
    let mut next: u64 = 0;
    let mut raises = Vec::new();
    for highest in highest {
        let problem = "tenants of the merged trace would exceed 2^32 - 1; make each trace one tenant instead";
        let wrong = |_| Error::Argument { name: "tenant", value: highest.to_string(), problem };
        next += u64::from(highest);
        raises.push(u32::try_from(next).map_err(wrong)? - highest);
        next += 1;
    }
    Ok(raises)
}

/// Merges traces that are sorted by arrival. Records with the same arrival keep the order of the traces. Latencies are
/// dropped, because each was measured without the load of the others.
///
/// # Errors
/// [`Error::Argument`] if tenants that are kept do not fit 32 bits.
pub fn merge(traces: &[&[IoRecord]], tenants: MergedTenants) -> Result<Vec<IoRecord>, Error> {
    debug_assert!(traces.iter().all(|trace| trace.is_sorted_by_key(|r| r.arrive_ns)));
    let kept = tenants == MergedTenants::Kept;
    let highest = traces.iter().map(|trace| trace.iter().map(|r| r.tenant).max().unwrap_or(0));
    let raises = if kept { raises_of(highest)? } else { (0..traces.len() as u32).collect() };
    let mut merged = Vec::with_capacity(traces.iter().map(|trace| trace.len()).sum());
    for (trace, raise) in traces.iter().zip(raises) {
        let tenant = |r: &IoRecord| raise + if kept { r.tenant } else { 0 };
        merged.extend(trace.iter().map(|r| IoRecord { tenant: tenant(r), latency_ns: None, ..*r }));
    }
    // A stable sort, which is fast on sorted runs: it merges them.
    merged.sort_by_key(|r| r.arrive_ns);
    Ok(merged)
}
