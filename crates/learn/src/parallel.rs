// SPDX-License-Identifier: MIT OR Apache-2.0
//! Independent jobs on all CPUs, with progress for one caller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use rayon::prelude::*;

use crate::error::Error;
use crate::pool::on_pool;

/// What a job calls with its progress; [`Error::Interrupted`] when the work has to stop.
pub(crate) type Tell<'a, P> = dyn Fn(P) -> Result<(), Error> + Sync + 'a;

/// Runs all jobs and returns their results in the order of the jobs. `on_progress` runs on this thread, with the steps
/// of the jobs interleaved; returning false stops the work.
///
/// # Errors
/// [`Error::Interrupted`] if `on_progress` stopped the work; otherwise the error of the first job that failed.
pub(crate) fn on_all_cpus<J: Send, T: Send, P: Send>(
    jobs: Vec<J>,
    work: impl Fn(J, &Tell<P>) -> Result<T, Error> + Sync,
    on_progress: &mut dyn FnMut(P) -> bool,
) -> Result<Vec<T>, Error> {
    let stop = AtomicBool::new(false);
    let (sender, steps) = mpsc::channel();
    let results: Vec<Result<T, Error>> = std::thread::scope(|scope| {
        let stop = &stop;
        let tell = move |step: P| {
            let heard = sender.send(step).is_ok() && !stop.load(Ordering::Relaxed);
            if heard { Ok(()) } else { Err(Error::Interrupted) }
        };
        let work = &work;
        // The thread owns the sender, so that the loop below ends with the jobs.
        let running = scope.spawn(move || on_pool(|| jobs.into_par_iter().map(|job| work(job, &tell)).collect()));
        for step in steps {
            if !stop.load(Ordering::Relaxed) && !on_progress(step) {
                stop.store(true, Ordering::Relaxed);
            }
        }
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if stop.into_inner() {
        return Err(Error::Interrupted);
    }
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_jobs() {
        let mut told = 0;
        let square = |job: u64, tell: &Tell<u64>| tell(job).map(|()| job * job);
        let squares = on_all_cpus((0..100).collect(), square, &mut |_| {
            told += 1;
            true
        });
        assert_eq!(squares.unwrap(), (0..100).map(|job| job * job).collect::<Vec<_>>());
        assert_eq!(told, 100);
    }

    #[test]
    fn the_first_failed_job_is_reported() {
        let fail = |job: u64, _: &Tell<()>| {
            if job % 30 == 29 { Err(Error::NoReads { records: 0, without: 0 }) } else { Ok(job) }
        };
        assert_eq!(on_all_cpus((0..29).collect(), fail, &mut |()| true).unwrap().len(), 29);
        assert!(matches!(on_all_cpus((0..100).collect(), fail, &mut |()| true), Err(Error::NoReads { .. })));
    }

    #[test]
    fn a_stop_ends_all_jobs_and_later_steps_are_not_told() {
        let mut told = 0;
        let endless = |_: u64, tell: &Tell<()>| -> Result<(), Error> {
            loop {
                tell(())?;
            }
        };
        let stopped = on_all_cpus((0..8).collect(), endless, &mut |()| {
            told += 1;
            told < 5
        });
        assert!(matches!(stopped, Err(Error::Interrupted)));
        assert_eq!(told, 5);
    }
}
