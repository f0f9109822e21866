// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the loops for the current processor. All of them give the same bits.

use crate::ffi;

/// Instruction sets for which the C loops are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The minimum that every target has.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The sets that this processor can run, fastest last.
pub fn available() -> Vec<Set> {
    #[allow(unused_mut)]
    let mut sets = vec![Set::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") {
            sets.push(Set::Avx2);
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
        {
            sets.push(Set::Avx512);
        }
    }
    sets
}

/// The fastest set of this processor.
pub fn best() -> Set {
    available().pop().unwrap_or(Set::Portable)
}

/// Loops of 16-bit integer layers.
pub fn dense(set: Set) -> *const ffi::Dense {
    match set {
        Set::Portable => &raw const ffi::linnet_dense_portable,
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => &raw const ffi::linnet_dense_avx2,
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => &raw const ffi::linnet_dense_avx512,
    }
}

/// Loops of an incremental network.
pub fn prune(set: Set) -> *const ffi::Prune {
    match set {
        Set::Portable => &raw const ffi::linnet_prune_portable,
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => &raw const ffi::linnet_prune_avx2,
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => &raw const ffi::linnet_prune_avx512,
    }
}

/// Loops of training.
pub fn loops(set: Set) -> *const ffi::Loops {
    match set {
        Set::Portable => &raw const ffi::linnet_loops_portable,
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => &raw const ffi::linnet_loops_avx2,
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => &raw const ffi::linnet_loops_avx512,
    }
}
