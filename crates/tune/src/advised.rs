// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files whose owners advised by `madvise`. Read and mappings share the value of an open file, but only the mapping
//! shows the advice, and not which descriptor it came from. So a file that anybody has mapped with advice is left alone
//! as a whole, and gets back what we gave it.

use std::collections::HashMap;
use std::time::Duration;

use crate::apply::Key;
use crate::bdi::{Bdi, of_files};
use crate::govern::Proposal;
use crate::groups::Proposed;
use crate::openfile::FileId;
use crate::track::Track;

/// vm_flags of a mapping with MADV_RANDOM. `bpf/kernel.h` has the same.
#[cfg(feature = "bpf")]
const VM_RAND_READ: u32 = 0x1_0000;

/// Advice of a mapping that changes how much is read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapAdvice {
    /// MADV_RANDOM.
    Random,
    /// MADV_SEQUENTIAL.
    Sequential,
}

impl MapAdvice {
    /// Of a mapping with these vm_flags, which have one of both.
    #[cfg(feature = "bpf")]
    pub(crate) fn of_flags(flags: u32) -> MapAdvice {
        if flags & VM_RAND_READ != 0 { MapAdvice::Random } else { MapAdvice::Sequential }
    }

    /// Why we leave the file alone.
    pub fn why(self) -> &'static str {
        match self {
            MapAdvice::Random => "it is mapped with MADV_RANDOM",
            MapAdvice::Sequential => "it is mapped with MADV_SEQUENTIAL",
        }
    }
}

/// Files that are mapped with advice.
pub type Advised = HashMap<FileId, MapAdvice>;

/// What puts back the values of files whose advice was not seen before.
pub(crate) fn put_back(advised: &Advised, now: Duration, bdis: &[Bdi], tracks: &HashMap<Key, Track>) -> Vec<Proposed> {
    if advised.is_empty() {
        return Vec::new();
    }
    let back = |(key, track): (&Key, &Track)| {
        let advice = advised.get(&key.file).filter(|_| !key.advised)?;
        let (kib, own_kib) = (track.governor.current_kib(), track.governor.original_kib());
        if kib == own_kib || track.governor.is_held(now) {
            return None;
        }
        let why = advice.why().to_owned();
        let proposal = Proposal { kind: "rollback", to_kib: own_kib, why, confidence: 1.0 };
        Some((of_files(bdis, key.file.dev)?.clone(), *key, proposal))
    };
    tracks.iter().filter_map(back).collect()
}

/// True for what would give an advised file another value than its own.
pub(crate) fn forbids(advised: &Advised, key: Key, proposal: &Proposal, track: &Track) -> bool {
    !key.advised && advised.contains_key(&key.file) && proposal.to_kib != track.governor.original_kib()
}
