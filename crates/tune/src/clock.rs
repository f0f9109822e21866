// SPDX-License-Identifier: MIT OR Apache-2.0
//! What looking costs.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread so far. Costs are differences of it: what others run between counts for nothing, so on a
/// busy machine the tuner looks as often as on an idle one.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
