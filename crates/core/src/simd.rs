// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the loops for the processor that runs us. All of them give the same integers.

use crate::ffi;

/// The fastest loops for 16-bit layers here.
pub fn dense() -> *const ffi::Dense {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
        {
            return &raw const ffi::linnet_dense_avx512;
        }
        if is_x86_feature_detected!("avx2") {
            return &raw const ffi::linnet_dense_avx2;
        }
    }
    &raw const ffi::linnet_dense_portable
}
