// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of bpf(2) that aya does not make: reads a whole map, hundreds of entries in one call, where aya makes one or two
//! for each entry; and takes an entry out with what is in it.

use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use aya::Pod;
use aya::maps::MapData;

/// `BPF_MAP_LOOKUP_BATCH` of bpf(2); hash maps have it from Linux 5.6 on, arrays with a value for each CPU from 5.13 on.
const LOOKUP_BATCH: libc::c_int = 24;
/// `BPF_MAP_LOOKUP_AND_DELETE_ELEM`; hash maps have it from Linux 5.14 on.
const TAKE: libc::c_int = 21;
/// Entries in one call. A bucket of the map must fit as a whole, and has one or two entries.
const ENTRIES: usize = 512;

/// The system call. `A` is the part of the kernel's `union bpf_attr` that the command has.
///
/// # Safety
///
/// What `attributes` points to must be valid for what the kernel reads and writes there.
pub(super) unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> Result<()> {
    let size = size_of::<A>() as libc::c_uint;
    // SAFETY: the kernel reads and writes at most `size` bytes of `attributes`; the rest is the caller's to see to.
    match unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// The part of the kernel's `union bpf_attr` for batches.
#[repr(C)]
struct Attributes {
    from: u64,
    next: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    entry_flags: u64,
    flags: u64,
}

/// The part of it for one entry.
#[repr(C)]
struct Element {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Removes the entry of `key` from a hash map of `K` and `V`. None where there is no such entry.
pub(super) fn take<K: Pod, V: Pod>(map: &MapData, key: &K) -> Option<V> {
    let mut value = MaybeUninit::<V>::uninit();
    let mut element = Element {
        map: map.fd().as_fd().as_raw_fd().cast_unsigned(),
        zero: 0,
        key: std::ptr::from_ref(key) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads the key and writes one value, and every pattern of bits is a `Pod`.
    unsafe { bpf(TAKE, &mut element).is_ok().then(|| value.assume_init()) }
}

/// Memory for the entries of one call.
pub(super) struct Batch<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    /// Values of an entry.
    width: usize,
    /// Entries in one call.
    entries: usize,
}

impl<K: Pod, V: Pod> Batch<K, V> {
    /// For a hash map of `K` and `V`.
    pub fn new() -> Batch<K, V> {
        Batch::sized(ENTRIES, 1)
    }

    /// For an array of so many entries, which have a `V` for each of so many CPUs: all that the machine may have.
    pub fn per_cpu(entries: usize, cpus: usize) -> Batch<K, V> {
        assert!(size_of::<V>().is_multiple_of(8), "the kernel rounds the size of each value up");
        Batch::sized(entries, cpus)
    }

    fn sized(entries: usize, width: usize) -> Batch<K, V> {
        Batch { keys: Vec::with_capacity(entries), values: Vec::with_capacity(entries * width), width, entries }
    }

    /// Calls `each` with the key and the values of every entry. One that is removed meanwhile may be left out.
    pub fn read(&mut self, map: &MapData, mut each: impl FnMut(K, &[V])) -> Result<()> {
        // Where the next call goes on: the kernel's number of a bucket, or of an entry.
        let (mut at, mut next) = (0u32, 0u32);
        let mut begun = false;
        loop {
            self.keys.clear();
            self.values.clear();
            let mut attributes = Attributes {
                from: if begun { (&raw const at) as u64 } else { 0 },
                next: (&raw mut next) as u64,
                keys: self.keys.as_mut_ptr() as u64,
                values: self.values.as_mut_ptr() as u64,
                count: self.entries as u32,
                map: map.fd().as_fd().as_raw_fd().cast_unsigned(),
                entry_flags: 0,
                flags: 0,
            };
            // SAFETY: the kernel reads `at`, writes `next`, and writes at most `entries` keys with `width` values each, for
            // which there is room.
            let error = unsafe { bpf(LOOKUP_BATCH, &mut attributes) }.err();
            // No such entry: those of this call are the last ones.
            let ended = error.as_ref().is_some_and(|error| error.raw_os_error() == Some(libc::ENOENT));
            if let Some(error) = error.filter(|_| !ended) {
                return Err(error);
            }
            let count = (attributes.count as usize).min(self.entries);
            // SAFETY: the kernel has written so many, and every pattern of bits is a `Pod`.
            unsafe {
                self.keys.set_len(count);
                self.values.set_len(count * self.width);
            }
            self.keys.iter().zip(self.values.chunks_exact(self.width)).for_each(|(key, values)| each(*key, values));
            if ended {
                return Ok(());
            }
            (at, begun) = (next, true);
        }
    }
}
