// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured builds of the core, behind one interface.

use std::ffi::c_void;

use linnet_core::raw::{Memory, ffi, network_core, network_with_set, simd, with_scratch};
use linnet_core::{Error, Layer, Network, Tracker};

/// A build of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Runs on every x86-64.
    Portable,
    /// Loops for AVX2.
    Avx2,
    /// Loops for AVX-512 with VNNI.
    Avx512,
    /// The flags of a kernel module: -O2, no vector registers.
    KernelFlags,
}

impl Build {
    /// The builds that this processor can run.
    pub fn available() -> Vec<Build> {
        let sets = simd::available();
        let mut builds = vec![Build::KernelFlags, Build::Portable];
        builds.extend(sets.contains(&simd::Set::Avx2).then_some(Build::Avx2));
        builds.extend(sets.contains(&simd::Set::Avx512).then_some(Build::Avx512));
        builds
    }

    /// The name in the rows.
    pub fn name(self) -> &'static str {
        match self {
            Build::Portable => "portable",
            Build::Avx2 => "avx2",
            Build::Avx512 => "avx512",
            Build::KernelFlags => "kernel-flags",
        }
    }

    pub(super) fn set(self) -> simd::Set {
        match self {
            Build::Avx2 => simd::Set::Avx2,
            Build::Avx512 => simd::Set::Avx512,
            Build::Portable | Build::KernelFlags => simd::Set::Portable,
        }
    }
}

unsafe extern "C" {
    static linnet_kernel_dense_portable: ffi::Dense;
    fn linnet_kernel_tables_plan(
        tables: *mut ffi::Tables,
        network: *const ffi::Network,
        loops: *const ffi::Prune,
    ) -> i32;
    static linnet_kernel_prune_portable: ffi::Prune;
    fn linnet_kernel_tables_place(tables: *mut ffi::Tables, memory: *mut c_void, memory_size: usize) -> i32;
    fn linnet_kernel_incremental_init(
        net: *mut ffi::IncrementalNetwork,
        size: usize,
        tables: *const ffi::Tables,
        tracker: *const Tracker,
    ) -> i32;
    fn linnet_kernel_incremental_arrive(net: *mut ffi::IncrementalNetwork, size_bytes: u32) -> u32;
    fn linnet_kernel_incremental_withdraw(net: *mut ffi::IncrementalNetwork, size_bytes: u32);
    fn linnet_kernel_incremental_note_read(
        net: *mut ffi::IncrementalNetwork,
        size_bytes: u32,
        latency_ns: u64,
        snapshot: u32,
    );
    fn linnet_kernel_incremental_catch_up(net: *mut ffi::IncrementalNetwork, snapshot: u32);
    fn linnet_kernel_incremental_pending_pages(net: *const ffi::IncrementalNetwork) -> u32;
    fn linnet_kernel_incremental_score(
        net: *const ffi::IncrementalNetwork,
        snapshot: u32,
        scratch: *mut c_void,
        score: *mut i64,
    ) -> i32;
    fn linnet_kernel_incremental_decide(net: *mut ffi::IncrementalNetwork, snapshot: u32, scratch: *mut c_void) -> i32;

    fn linnet_plain_portable(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
    fn linnet_plain_portable_deep(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
    fn linnet_plain_kernel(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
    fn linnet_plain_kernel_deep(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
    fn linnet_plain_avx2(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
    fn linnet_plain_avx2_deep(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
    fn linnet_plain_avx512(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
    fn linnet_plain_avx512_deep(layers: *const PlainLayer, count: i64, features: *const i64) -> i32;
}

/// `struct plain_layer`.
#[repr(C)]
struct PlainLayer {
    weights: *const i64,
    biases: *const i64,
    inputs: i64,
    outputs: i64,
}

type PlainLoop = unsafe extern "C" fn(*const PlainLayer, i64, *const i64) -> i32;
type Call = unsafe extern "C" fn(*mut ffi::IncrementalNetwork, u32) -> u32;

struct Functions {
    init: unsafe extern "C" fn(*mut ffi::IncrementalNetwork, usize, *const ffi::Tables, *const Tracker) -> i32,
    arrive: Call,
    withdraw: unsafe extern "C" fn(*mut ffi::IncrementalNetwork, u32),
    note_read: unsafe extern "C" fn(*mut ffi::IncrementalNetwork, u32, u64, u32),
    catch_up: unsafe extern "C" fn(*mut ffi::IncrementalNetwork, u32),
    pending_pages: unsafe extern "C" fn(*const ffi::IncrementalNetwork) -> u32,
    score: unsafe extern "C" fn(*const ffi::IncrementalNetwork, u32, *mut c_void, *mut i64) -> i32,
    decide: unsafe extern "C" fn(*mut ffi::IncrementalNetwork, u32, *mut c_void) -> i32,
}

/// A network in one build. Its devices borrow it.
pub struct Subject {
    core: ffi::Network,
    tables: ffi::Tables,
    /// Where the tables are, for [`Subject::flush`].
    tables_at: *const u8,
    tables_memory: Memory,
    functions: Functions,
    owner: Network,
}

impl Subject {
    pub fn new(network: &Network, build: Build) -> Result<Box<Subject>, Error> {
        let owner = network_with_set(network.layers(), network.scales().to_vec(), network.input_max(), build.set())?;
        let kernel = build == Build::KernelFlags;
        let functions = if kernel {
            Functions {
                init: linnet_kernel_incremental_init,
                arrive: linnet_kernel_incremental_arrive,
                withdraw: linnet_kernel_incremental_withdraw,
                note_read: linnet_kernel_incremental_note_read,
                catch_up: linnet_kernel_incremental_catch_up,
                pending_pages: linnet_kernel_incremental_pending_pages,
                score: linnet_kernel_incremental_score,
                decide: linnet_kernel_incremental_decide,
            }
        } else {
            Functions {
                init: ffi::linnet_incremental_init,
                arrive: ffi::linnet_incremental_arrive,
                withdraw: ffi::linnet_incremental_withdraw,
                note_read: ffi::linnet_incremental_note_read,
                catch_up: ffi::linnet_incremental_catch_up,
                pending_pages: ffi::linnet_incremental_pending_pages,
                score: ffi::linnet_incremental_score,
                decide: ffi::linnet_incremental_decide,
            }
        };
        // SAFETY: all zeros is a valid `ffi::Tables`; each box is filled in place.
        unsafe {
            let mut subject = Box::new(Subject {
                core: *network_core(&owner),
                tables: std::mem::zeroed(),
                tables_at: std::ptr::null(),
                tables_memory: Memory::new(0),
                functions,
                owner,
            });
            let subject_core = &raw const subject.core;
            let code = if kernel {
                subject.core.dense = &raw const linnet_kernel_dense_portable;
                linnet_kernel_tables_plan(&mut subject.tables, subject_core, &raw const linnet_kernel_prune_portable)
            } else {
                ffi::linnet_tables_plan(&mut subject.tables, subject_core, simd::prune(build.set()))
            };
            if code < 0 {
                return Err(Error::Shape("an incremental network needs 31 digits and two outputs".into()));
            }
            subject.tables_memory = Memory::new(subject.tables.memory_size);
            let (at, size) = (subject.tables_memory.as_mut_ptr(), subject.tables_memory.size());
            subject.tables_at = at.cast();
            if kernel {
                linnet_kernel_tables_place(&mut subject.tables, at, size);
            } else {
                ffi::linnet_tables_place(&mut subject.tables, at, size);
            }
            Ok(subject)
        }
    }

    pub fn device(&self) -> Device<'_> {
        let mut memory = Memory::new(self.tables.incremental_size);
        let core = memory.as_mut_ptr().cast();
        // SAFETY: memory of the right size, and tables that outlive the device.
        unsafe { (self.functions.init)(core, memory.size(), &self.tables, std::ptr::null()) };
        Device { subject: self, core, memory }
    }

    /// Flushes the weights and tables from all caches.
    fn flush(&self) {
        flush_network(&self.owner);
        flush(self.tables_at, self.tables_memory.size());
    }
}

/// One device of a subject. Used by one thread.
pub struct Device<'s> {
    subject: &'s Subject,
    core: *mut ffi::IncrementalNetwork,
    memory: Memory,
}

// SAFETY of the calls: `core` was initialised in memory that lives as long, with scratch of the size that it needs.
impl Device<'_> {
    #[inline]
    pub fn arrive(&self, size_bytes: u32) -> u32 {
        // SAFETY: `core` was initialised in memory that lives as long, with scratch of the size that it needs.
        unsafe { (self.subject.functions.arrive)(self.core, size_bytes) }
    }

    #[inline]
    pub fn withdraw(&self, size_bytes: u32) {
        // SAFETY: `core` was initialised in memory that lives as long, with scratch of the size that it needs.
        unsafe { (self.subject.functions.withdraw)(self.core, size_bytes) }
    }

    /// Computes the history at once, for a next arrival that adds as many pages as have left.
    #[inline]
    pub fn complete_read(&self, size_bytes: u32, latency_ns: u64, snapshot: u32) {
        let Functions { note_read, catch_up, pending_pages, .. } = &self.subject.functions;
        // SAFETY: `core` was initialised in memory that lives as long, with scratch of the size that it needs.
        unsafe {
            let expected = pending_pages(self.core);
            note_read(self.core, size_bytes, latency_ns, snapshot);
            catch_up(self.core, expected);
        }
    }

    /// Computed each time: the cost of a decision that is not cached.
    #[inline]
    pub fn score(&self, snapshot: u32) -> i64 {
        let mut score = 0;
        // SAFETY: `core` was initialised in memory that lives as long, with scratch of the size that it needs.
        self.scratched(|scratch| unsafe { (self.subject.functions.score)(self.core, snapshot, scratch, &mut score) });
        score
    }

    #[inline]
    pub fn decide(&self, snapshot: u32) -> bool {
        // SAFETY: `core` was initialised in memory that lives as long, with scratch of the size that it needs.
        self.scratched(|scratch| unsafe { (self.subject.functions.decide)(self.core, snapshot, scratch) }) == 1
    }

    #[inline]
    fn scratched<T>(&self, work: impl FnOnce(*mut c_void) -> T) -> T {
        match self.subject.tables.scratch_size {
            0 => work(std::ptr::null_mut()),
            size => with_scratch(size, work),
        }
    }

    /// Whether the next decision of this snapshot is cached. Reads the words that incremental.c describes.
    pub fn remembers(&self, snapshot: u32) -> bool {
        let pages = snapshot.min(999) as usize;
        let words = self.core.cast::<u64>();
        // SAFETY: struct linnet_incremental of core/incremental.h: the version is its second word, decisions begin at
        // byte 128.
        let (version, word) = unsafe { (words.add(1).read(), words.add(16 + pages / 10).read()) };
        word >> 20 == version & ((1 << 44) - 1) && word >> (10 + pages % 10) & 1 == 1
    }

    /// Flushes the device's state and its subject from all caches.
    pub fn flush(&self) {
        flush(self.core.cast(), self.memory.size());
        self.subject.flush();
    }
}

/// The plain loop with one set of flags.
pub struct Plain {
    layers: Vec<PlainLayer>,
    /// The memory to which the layers point.
    numbers: Vec<Vec<i64>>,
    call: PlainLoop,
}

// SAFETY: immutable after construction; the pointers lead into `numbers`.
unsafe impl Sync for Plain {}

impl Plain {
    pub fn new(network: &Network, build: Build) -> Plain {
        let given = network.layers();
        let numbers: Vec<Vec<i64>> =
            given.iter().flat_map(|layer| [layer.weights.clone(), layer.biases.clone()]).collect();
        let one = |(layer, numbers): (&Layer, &[Vec<i64>])| PlainLayer {
            weights: numbers[0].as_ptr(),
            biases: numbers[1].as_ptr(),
            inputs: layer.inputs as i64,
            outputs: layer.outputs as i64,
        };
        let layers = given.iter().zip(numbers.chunks(2)).map(one).collect();
        let (shallow, deep): (PlainLoop, PlainLoop) = match build {
            Build::Portable => (linnet_plain_portable, linnet_plain_portable_deep),
            Build::KernelFlags => (linnet_plain_kernel, linnet_plain_kernel_deep),
            Build::Avx2 => (linnet_plain_avx2, linnet_plain_avx2_deep),
            Build::Avx512 => (linnet_plain_avx512, linnet_plain_avx512_deep),
        };
        let call = if given.len() == 2 { shallow } else { deep };
        Plain { layers, numbers, call }
    }

    /// `features` has as many values as the first layer has inputs.
    #[inline]
    pub fn decide(&self, features: &[i64]) -> bool {
        debug_assert_eq!(features.len() as i64, self.layers[0].inputs);
        // SAFETY: the layers' numbers live as long; none is wider than a core network's 4096; two outputs.
        unsafe { (self.call)(self.layers.as_ptr(), self.layers.len() as i64, features.as_ptr()) == 1 }
    }

    pub fn flush(&self) {
        for numbers in &self.numbers {
            flush(numbers.as_ptr().cast(), size_of_val(&numbers[..]));
        }
    }
}

/// Flushes a network's weights from all caches.
pub fn flush_network(network: &Network) {
    let core = network_core(network);
    flush(core.layers[0].weights.cast(), core.memory_size);
    flush(std::ptr::from_ref(core).cast(), size_of::<ffi::Network>());
}

/// Flushes these bytes from all caches.
pub fn flush(at: *const u8, size: usize) {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    // SAFETY: the lines of memory that the caller holds.
    unsafe {
        for offset in (0..size).step_by(64) {
            _mm_clflush(at.wrapping_add(offset));
        }
        _mm_mfence();
    }
}
