// SPDX-License-Identifier: MIT OR Apache-2.0
//! The observer without BPF: what each disk reads, from counters that every kernel has. It sees neither files nor which
//! pages are demanded, so a scan through a mapping and random reads look the same to it. A tuner ends with an error where it
//! has nothing better.

use std::time::Duration;

use crate::bdi::{self, Bdi};
use crate::doctor::{Activity, Load};
use crate::error::Result;
use crate::host::Host;
use crate::observe::{Observer, Sample, Sight};
use crate::openfile::{Descriptor, FileId};

/// Counts per disk.
pub struct Coarse {
    host: Host,
    sight: Sight,
}

impl Coarse {
    /// An observer that works in place of a better one, which cannot run for the reason `why`.
    pub fn new(host: &Host, why: String) -> Coarse {
        let limits = vec![
            why,
            "without it nobody sees which pages of which file are demanded: scans and random reads through mappings look alike"
                .to_owned(),
            "nothing is changed on such evidence; `linnet tune doctor` says what can be seen".to_owned(),
        ];
        Coarse { host: host.clone(), sight: Sight { limits, ..Sight::default() } }
    }

    /// What each device reads over a pause, which is `watched`.
    pub fn loads(&self, watched: Duration, pause: impl FnOnce()) -> Vec<(Bdi, Load)> {
        let activity = Activity::watch(&self.host, watched, pause);
        bdi::list(&self.host).into_iter().map(|bdi| (bdi.clone(), activity.of(&bdi))).collect()
    }
}

impl Observer for Coarse {
    fn sight(&self) -> &Sight {
        &self.sight
    }

    fn look(&mut self) -> Result<Vec<Sample>> {
        Ok(Vec::new())
    }

    fn descriptors(&mut self, _files: &[FileId]) -> Result<Vec<Descriptor>> {
        Ok(Vec::new())
    }
}
