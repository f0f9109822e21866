// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs did not count.

use std::os::fd::{AsFd, AsRawFd};

use aya::Ebpf;
use aya::maps::PerCpuArray;

use crate::error::Result;
use crate::observe::batch::bpf;
use crate::observe::bpf::{causes, refused};

/// `BPF_OBJ_GET_INFO_BY_FD` of bpf(2).
const INFO: libc::c_int = 15;
/// Bytes before `recursion_misses` in the kernel's `struct bpf_prog_info`, which has it from Linux 5.12 on.
const BEFORE_MISSES: usize = 208;

/// The part of the kernel's `union bpf_attr` for information.
#[repr(C)]
struct Attributes {
    fd: u32,
    bytes: u32,
    to: u64,
}

/// The part of `struct bpf_prog_info` that is read. The kernel looks at some of what is before, so all of it is zero.
#[repr(C)]
struct Info {
    before: [u8; BEFORE_MISSES],
    recursion_misses: u64,
}

/// The number in place `what` of the map `map`, whose places every CPU has.
pub(crate) fn sum(ebpf: &Ebpf, map: &str, what: u32) -> Result<u64> {
    let map = ebpf.map(map).expect("in the object");
    let map: PerCpuArray<_, u64> = PerCpuArray::try_from(map).expect("its value");
    Ok(map.get(&what, 0).map_err(|error| refused(causes(&error)))?.iter().sum())
}

/// Events at which the kernel did not run a program, because one was running on that CPU.
pub(crate) fn skipped(ebpf: &Ebpf) -> u64 {
    let loaded = ebpf.programs().filter_map(|(_, program)| program.fd().ok());
    loaded.map(|fd| recursion_misses(fd.as_fd().as_raw_fd())).sum()
}

fn recursion_misses(fd: i32) -> u64 {
    let mut info = Info { before: [0; BEFORE_MISSES], recursion_misses: 0 };
    let mut attributes =
        Attributes { fd: fd.cast_unsigned(), bytes: size_of::<Info>() as u32, to: (&raw mut info) as u64 };
    // SAFETY: the kernel reads and writes at most `bytes` bytes of `info`.
    if unsafe { bpf(INFO, &mut attributes) }.is_ok() { info.recursion_misses } else { 0 }
}
