// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants together on a real drive that is set aside: what `linnet_tenant::colocate` does on modelled drives, in real
//! time.
//!
//! A [`Drive`] is a block device that nothing else uses, or a file. [`colocate()`] replays the tenants' I/Os at the times
//! at which they arrive, each tenant on its part of the drive, and counts what they see by the meter of modelled runs.
//!
//! # How it works
//! Each tenant has a thread with an io_uring of its own, which sleeps until the next I/O arrives or one completes; I/Os
//! that find the tenant's depth used up wait for a place. Latency runs from submission to the moment at which the thread
//! sees the completion. [`Ran::waited_share`] and [`Ran::late_us_p99`] say for how long threads waited for a CPU and how
//! late I/Os were submitted: where that is no small part of the latencies, the machine was measured and not the drive.
//!
//! fio's replay of a trace would not do: it sees no completion while it sleeps until the next I/O (fio 3.33: 22 ms mean
//! latency of 4 KiB in memory at 2,000 a second and depth 32), and times each I/O from the one before, so a tenant that
//! has fallen behind never catches up.

mod buffer;
mod drive;
mod error;
mod player;
mod run;

pub use drive::Drive;
pub use error::Error;
pub use run::{Ran, colocate};
