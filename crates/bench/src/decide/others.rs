// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions without an incremental network: trees on an in-flight tracker, Heimdall's network on its tracker, and
//! networks of any shape.

use std::ffi::c_void;
use std::hint::black_box;

use linnet_core::raw::ffi::{self, linnet_network_score};
use linnet_core::raw::{InflightIo, Raw, network_core, network_with_set, with_scratch};
use linnet_core::{
    DIGITS, Error, HEIMDALL_FEATURES, HEIMDALL_INPUTS, Heimdall, HeimdallScale, INFLIGHT_FEATURES, Layer, Network,
    TREES, Tree, Trees,
};
use linnet_types::Op;

use super::stream::{Chance, Event, Stream};
use super::subject::{flush, flush_network};
use super::{Build, CALLS, Options, Plain, Row, cold, compare, hot, incremental_rows, row, timed};

/// Names of the subjects that are measured in addition to the given networks.
pub const TREES_NAME: &str = "linnet-trees";
pub const HEIMDALL_NAME: &str = "heimdall-22-128-16-2";

macro_rules! of_build {
    ($build:expr, $kernel:ident, $other:ident) => {
        if $build == Build::KernelFlags { $kernel } else { $other }
    };
}

unsafe extern "C" {
    fn linnet_inflight_init(inflight: *mut Raw, inflection_ns: u64);
    fn linnet_inflight_arrive(w: *mut Raw, ios: *mut InflightIo, io: u32, now: u64, read: i32, offset: u64, size: u32);
    fn linnet_inflight_complete(w: *mut Raw, ios: *mut InflightIo, io: u32, now: u64);
    fn linnet_inflight_withdraw(w: *mut Raw, ios: *mut InflightIo, io: u32);
    fn linnet_inflight_describe(w: *const Raw, schema: u32, now: u64, offset: u64, size: u32, f: *mut u8);
    fn linnet_kernel_inflight_arrive(
        w: *mut Raw,
        ios: *mut InflightIo,
        io: u32,
        now: u64,
        read: i32,
        offset: u64,
        size: u32,
    );
    fn linnet_kernel_inflight_complete(w: *mut Raw, ios: *mut InflightIo, io: u32, now: u64);
    fn linnet_kernel_inflight_describe(w: *const Raw, schema: u32, now: u64, offset: u64, size: u32, f: *mut u8);
    fn linnet_trees_score(trees: *const Trees, features: *const u8) -> i32;
    fn linnet_trees_score_avx2(trees: *const Trees, features: *const u8) -> i32;
    fn linnet_trees_score_avx512(trees: *const Trees, features: *const u8) -> i32;
    fn linnet_kernel_trees_score(trees: *const Trees, features: *const u8) -> i32;
    fn linnet_kernel_network_score(
        network: *const ffi::Network,
        inputs: *const u8,
        scratch: *mut c_void,
        score: *mut i64,
    ) -> i32;
    static linnet_kernel_dense_portable: ffi::Dense;
    fn linnet_heimdall_features(tracker: *const Heimdall, snapshot: u32, size: u32, features: *mut u32);
    fn linnet_heimdall_inputs(scale: *const HeimdallScale, features: *const u32, inputs: *mut u8);
    fn linnet_heimdall_complete_read(tracker: *mut Heimdall, size: u32, latency_ns: u64, snapshot: u32);
    fn linnet_kernel_heimdall_features(tracker: *const Heimdall, snapshot: u32, size: u32, features: *mut u32);
    fn linnet_kernel_heimdall_inputs(scale: *const HeimdallScale, features: *const u32, inputs: *mut u8);
    fn linnet_kernel_heimdall_complete_read(tracker: *mut Heimdall, size: u32, latency_ns: u64, snapshot: u32);
}

/// Reads and writes that may be in flight at once.
const PLACES: usize = 4_096;

/// Trees, and one device under load.
pub struct InflightBench {
    build: Build,
    trees: Box<Trees>,
    inflight: Box<Raw>,
    ios: Vec<InflightIo>,
    now_ns: u64,
}

// SAFETY of the calls: places are within `ios`, and only I/Os in flight end; trees were checked.
impl InflightBench {
    pub fn new(build: Build, seed: u64) -> Result<InflightBench, Error> {
        let mut chance = Chance(seed);
        let mut draw = |bound: u64| chance.below(bound);
        // The time does not depend on the questions.
        let trees: Vec<Tree> = (0..TREES)
            .map(|_| Tree {
                feature: std::array::from_fn(|_| draw(INFLIGHT_FEATURES as u64) as u8),
                threshold: std::array::from_fn(|_| draw(64) as u8),
                leaf: std::array::from_fn(|_| draw(2_048) as i16 - 1_024),
            })
            .collect();
        let trees = Box::new(Trees::new(&trees, 0)?);
        let (inflight, ios) = (Box::default(), vec![InflightIo::default(); PLACES]);
        let mut made = InflightBench { build, trees, inflight, ios, now_ns: 0 };
        // SAFETY: the structs have C's layout; places are within `ios`, and only I/Os in flight end.
        unsafe { linnet_inflight_init(&mut *made.inflight, 1_000_000) };
        made.live_through(Stream::new(seed), 2_000);
        Ok(made)
    }

    /// Applies this many events of a device's load and leaves the rest in flight.
    fn live_through(&mut self, mut stream: Stream, events: usize) {
        for _ in 0..events {
            match stream.next() {
                Event::Arrive { op, size_bytes, .. } => {
                    self.now_ns = stream.now_ns();
                    self.arrive(stream.arrived() - 1, op == Op::Read, size_bytes);
                }
                Event::Complete { id, .. } => {
                    self.now_ns = stream.now_ns();
                    self.complete(id);
                }
            }
        }
        // The first places are reserved for the measured I/Os.
        assert!(stream.arrived() + CALLS < PLACES, "every I/O has a place of its own");
    }

    fn at(k: usize) -> u32 {
        (PLACES - 1 - k) as u32
    }

    #[inline]
    pub fn submit(&self, i: usize) -> i32 {
        let mut features = [0; INFLIGHT_FEATURES];
        let (now, offset) = (self.now_ns + 1_000 * i as u64, 4_096 * i as u64);
        // SAFETY: the structs have C's layout; places are within `ios`, and only I/Os in flight end.
        unsafe {
            let describe = of_build!(self.build, linnet_kernel_inflight_describe, linnet_inflight_describe);
            let schema = self.trees.schema() as u32;
            describe(&*self.inflight, schema, now, offset, 4_096, features.as_mut_ptr());
            let score = match self.build {
                Build::Portable => linnet_trees_score,
                Build::Avx2 => linnet_trees_score_avx2,
                Build::Avx512 => linnet_trees_score_avx512,
                Build::KernelFlags => linnet_kernel_trees_score,
            };
            score(&*self.trees, features.as_ptr())
        }
    }

    #[inline]
    pub fn arrive(&mut self, k: usize, is_read: bool, size_bytes: u32) {
        let arrive = of_build!(self.build, linnet_kernel_inflight_arrive, linnet_inflight_arrive);
        let (offset, read) = (8_192 * k as u64, i32::from(is_read));
        // SAFETY: the structs have C's layout; places are within `ios`, and only I/Os in flight end.
        unsafe {
            arrive(&mut *self.inflight, self.ios.as_mut_ptr(), Self::at(k), self.now_ns, read, offset, size_bytes);
        }
    }

    #[inline]
    pub fn complete(&mut self, k: usize) {
        let complete = of_build!(self.build, linnet_kernel_inflight_complete, linnet_inflight_complete);
        // SAFETY: the structs have C's layout; places are within `ios`, and only I/Os in flight end.
        unsafe { complete(&mut *self.inflight, self.ios.as_mut_ptr(), Self::at(k), self.now_ns + 150_000) };
    }

    fn withdraw(&mut self, k: usize) {
        // SAFETY: the structs have C's layout; places are within `ios`, and only I/Os in flight end.
        unsafe { linnet_inflight_withdraw(&mut *self.inflight, self.ios.as_mut_ptr(), Self::at(k)) };
    }

    fn flush(&self) {
        flush((&raw const *self.trees).cast(), size_of::<Trees>());
        flush((&raw const *self.inflight).cast(), size_of::<Raw>());
        flush(self.ios.as_ptr().cast(), size_of_val(&self.ios[..]));
    }
}

/// Places of the measured I/Os: after those that the load has used.
pub const FREE: usize = PLACES - 1 - CALLS;

pub fn trees_rows(build: Build, options: &Options, rows: &mut Vec<Row>) -> Result<(), Error> {
    let blocks = options.blocks;
    let tracking = InflightBench::new(build, options.seed)?;
    let mut push = |path, state, result| rows.push(timed(row(TREES_NAME, "realistic", path, build, state), result));
    let submit = |tracking: &InflightBench, i: usize| {
        black_box(tracking.submit(black_box(i)));
    };
    push("submit", "hot", hot(blocks, |_| {}, |i| submit(&tracking, i)));
    push("submit", "cold", cold(blocks, |_| tracking.flush(), |i| submit(&tracking, i)));
    let tracking = std::cell::RefCell::new(tracking);
    let all = |act: fn(&mut InflightBench, usize)| (0..CALLS).for_each(|k| act(&mut tracking.borrow_mut(), FREE + k));
    let complete = |i: usize| tracking.borrow_mut().complete(FREE + i % CALLS);
    push("complete", "hot", hot(blocks, |_| all(|w, k| w.arrive(k, true, 4_096)), complete));
    let arrive = |i: usize| tracking.borrow_mut().arrive(FREE + i % CALLS, true, black_box(4_096));
    let in_flight = std::cell::Cell::new(false);
    let clear = |_: usize| {
        if in_flight.replace(true) {
            all(InflightBench::withdraw);
        }
    };
    push("arrive", "hot", hot(blocks, clear, arrive));
    all(InflightBench::withdraw);
    let one = |_: usize| {
        tracking.borrow_mut().arrive(FREE, true, 4_096);
        tracking.borrow().flush();
    };
    push("complete", "cold", cold(blocks, one, |_| tracking.borrow_mut().complete(FREE)));
    Ok(())
}

/// A network of any shape, without an incremental network.
pub struct Bare {
    core: ffi::Network,
    owner: Network,
    build: Build,
}

impl Bare {
    pub fn new(network: &Network, build: Build) -> Result<Bare, Error> {
        let owner = network_with_set(network.layers(), network.scales().to_vec(), network.input_max(), build.set())?;
        let mut core = *network_core(&owner);
        if build == Build::KernelFlags {
            core.dense = &raw const linnet_kernel_dense_portable;
        }
        Ok(Bare { core, owner, build })
    }

    /// `inputs` has the length that the network expects, with values within its bound.
    #[inline]
    pub fn score(&self, inputs: &[u8]) -> i64 {
        let score = of_build!(self.build, linnet_kernel_network_score, linnet_network_score);
        let mut found = 0;
        // SAFETY: the weights live in `owner`, and the scratch has the size that they need.
        with_scratch(self.core.scratch_size, |scratch| unsafe {
            score(&self.core, inputs.as_ptr(), scratch, &mut found)
        });
        found
    }
}

/// Inputs of a network without a feature schema: uniform, within its bound.
fn inputs_of(network: &Network, seed: u64) -> Vec<Vec<u8>> {
    let mut chance = Chance(seed);
    let bound = u64::from(network.input_max()) + 1;
    (0..256).map(|_| (0..network.inputs()).map(|_| chance.below(bound) as u8).collect()).collect()
}

/// `plain`, and `network`: the core's whole network on every submit, without precomputation.
pub fn network_rows(
    name: &str,
    network: &Network,
    build: Build,
    options: &Options,
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let inputs = inputs_of(network, options.seed);
    let bare = Bare::new(network, build)?;
    let score = |i: usize| {
        black_box(bare.score(black_box(&inputs[i % inputs.len()])));
    };
    rows.push(timed(row(name, "uniform", "network", build, "hot"), hot(options.blocks, |_| {}, score)));
    let flushed = cold(options.blocks, |_| flush_network(&bare.owner), score);
    rows.push(timed(row(name, "uniform", "network", build, "cold"), flushed));
    Ok(())
}

pub fn plain_rows(name: &str, network: &Network, build: Build, options: &Options, rows: &mut Vec<Row>) {
    let plain = Plain::new(network, build);
    let inputs: Vec<Vec<i64>> =
        inputs_of(network, options.seed).iter().map(|row| row.iter().map(|&x| i64::from(x)).collect()).collect();
    let call = |i: usize| {
        black_box(plain.decide(black_box(&inputs[i % inputs.len()])));
    };
    rows.push(timed(row(name, "uniform", "plain", build, "hot"), hot(options.blocks, |_| {}, call)));
    rows.push(timed(row(name, "uniform", "plain", build, "cold"), cold(options.blocks, |_| plain.flush(), call)));
}

/// Heimdall's network on its scaled features, two bytes each; its time does not depend on the weights.
pub fn heimdall_network(seed: u64) -> Result<Network, Error> {
    let mut chance = Chance(seed);
    let shape = [HEIMDALL_INPUTS, 128, 16, 2];
    let layers = shape.windows(2).map(|pair| Layer {
        inputs: pair[0],
        outputs: pair[1],
        weights: (0..pair[0] * pair[1]).map(|_| chance.below(281) as i64 - 140).collect(),
        biases: vec![0; pair[1]],
    });
    Network::with_input_max(layers.collect(), vec![1; 3], u8::MAX)
}

pub fn heimdall_rows(build: Build, options: &Options, rows: &mut Vec<Row>) -> Result<(), Error> {
    let network = heimdall_network(options.seed)?;
    plain_rows(HEIMDALL_NAME, &network, build, options, rows);
    let bare = Bare::new(&network, build)?;
    let scale = HeimdallScale::new(&[0; HEIMDALL_FEATURES], &[1_000_000; HEIMDALL_FEATURES])?;
    let tracker = std::cell::RefCell::new(Heimdall::new());
    let complete = |i: usize| {
        let done = of_build!(build, linnet_kernel_heimdall_complete_read, linnet_heimdall_complete_read);
        // SAFETY: plain counts.
        unsafe { done(&mut *tracker.borrow_mut(), 4_096, black_box(100_000 + i as u64), 3) };
    };
    complete(0);
    let submit = |i: usize| {
        let (mut features, mut inputs) = ([0u32; HEIMDALL_FEATURES], [0u8; HEIMDALL_INPUTS]);
        let describe = of_build!(build, linnet_kernel_heimdall_features, linnet_heimdall_features);
        let scaled = of_build!(build, linnet_kernel_heimdall_inputs, linnet_heimdall_inputs);
        // SAFETY: both write exactly as many numbers as there are.
        unsafe {
            describe(&*tracker.borrow(), black_box(i as u32 & 63), 4_096, features.as_mut_ptr());
            scaled(&scale, features.as_ptr(), inputs.as_mut_ptr());
        }
        black_box(bare.score(&inputs));
    };
    let mut push = |path, state, result| rows.push(timed(row(HEIMDALL_NAME, "uniform", path, build, state), result));
    push("submit", "hot", hot(options.blocks, |_| {}, submit));
    push("submit", "cold", cold(options.blocks, |_| flush_network(&bare.owner), submit));
    push("complete", "hot", hot(options.blocks, |_| {}, complete));
    Ok(())
}

/// Measures one network of any shape: the plain loop, the whole network on every submit, and the paths of an
/// incremental network if it maps 31 digits to two outputs. Hot figures of an incremental network are those of `submit`
/// and `complete`.
pub fn one_network(name: &str, network: &Network, options: &Options) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for build in Build::available() {
        plain_rows(name, network, build, options, &mut rows);
        network_rows(name, network, build, options, &mut rows)?;
        if network.inputs() == DIGITS && network.outputs() == 2 {
            incremental_rows(name, network, build, options, &mut rows)?;
        }
    }
    let plain: Vec<Row> = rows.iter().filter(|row| row.path == "plain").cloned().collect();
    rows.iter_mut().for_each(|row| compare(row, &plain));
    Ok(rows)
}

/// Measures the trees.
pub fn trees(options: &Options) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for build in Build::available() {
        trees_rows(build, options, &mut rows)?;
    }
    Ok(rows)
}
