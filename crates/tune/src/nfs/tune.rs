// SPDX-License-Identifier: MIT OR Apache-2.0
//! One mount's tuner: observer, decider, readahead, and the read size where it is asked for.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crate::bdi::{self, Kind};
use crate::device::Rivals;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::host::Host;
use crate::mounts::{mounts, plain, top};
use crate::nfs::model::NfsModel;
use crate::nfs::observe::NfsObserver;
use crate::nfs::path::Path;
use crate::nfs::rsize::Rsize;
use crate::nfs::rule::NfsRule;
use crate::observe::Observer;
use crate::rule::Decider;
use crate::tuner::{Options, Tuner, only_dev};

/// How to tune a mount.
#[derive(Debug, Clone)]
pub struct NfsOptions {
    /// Where it is mounted.
    pub mount: String,
    /// Decide and explain, change nothing.
    pub dry_run: bool,
    /// Stop after one round of decisions, and leave the values.
    pub once: bool,
    /// A model file; the rule decides without one.
    pub model: Option<PathBuf>,
    /// Turn the read size too.
    pub rsize: bool,
    /// What happens when somebody else sets the mount's value.
    pub rivals: Rivals,
    /// How long somebody's decision stands.
    pub backoff: Duration,
}

/// Tunes until `tell` answers false (it is asked at every tick, with None), or once.
pub fn run(host: &Host, options: &NfsOptions, tell: &mut dyn FnMut(Option<&Event>) -> bool) -> Result<()> {
    let point = plain(&options.mount);
    let all = bdi::list(host);
    let bdi = bdi::find(host, &all, point)?;
    if bdi.kind != Kind::Nfs {
        let listed = mounts(host, "self");
        let fs = top(&listed, point).map_or("a device", |mount| mount.fs.as_str());
        let tunes = if bdi.known().is_ok() {
            format!("; `linnet tune readahead --device {point}` tunes it")
        } else {
            String::new()
        };
        let what = format!("is no NFS mount but {fs}{tunes}");
        return Err(Error::Format { path: point.into(), what });
    }
    let rule = Rc::new(NfsRule::new(Path::new(bdi.value_kib(host)?, !options.dry_run)));
    let model = match &options.model {
        Some(path) => Some(NfsModel::read(path, rule.clone())?),
        None => None,
    };
    let decider: &dyn Decider = match &model {
        Some(model) => model,
        None => rule.as_ref(),
    };
    let tuning = Options {
        device: Some(point.to_owned()),
        dry_run: options.dry_run,
        once: options.once,
        rivals: options.rivals,
        backoff: options.backoff,
        once_for: ONCE,
        tick: TICK,
        ..Options::default()
    };
    // With the read size a second mount takes the place of the first.
    let only = if options.rsize { None } else { only_dev(host, &tuning)? };
    let mut observer = NfsObserver::start(host, only)?;
    if model.as_ref().is_some_and(NfsModel::needs_demands) && !observer.sight().demands {
        let what =
            "which pages are asked for cannot be seen here, and the model rests on it; leave --model out, or give one \
                    of schema nfs-1"
                .to_owned();
        return Err(Error::Observer { what });
    }
    let mut rsize = Rsize::new(point, rule.clone(), options.dry_run);
    let tuner = Tuner::start(host, tuning, decider, &mut observer, &mut |event| tell(Some(event)))?;
    let tuner = if options.rsize { tuner.with(&mut rsize) } else { tuner };
    tuner.run(tell)
}

/// Time between looks. A trial takes three of them, and begins again with the next value.
const TICK: Duration = Duration::from_millis(100);

/// How long `once` watches: some steps of a trial, one second each.
const ONCE: Duration = Duration::from_secs(8);
