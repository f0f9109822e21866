// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of the library of knobs, next to a plain re-implementation of KML's data path (`matrix.c`) in the
//! same run.
//!
//! A block is a call on each of 4,096 rows, in an order that differs between blocks, so that the processor cannot learn
//! the branches. The two sides alternate, block by block. The figure is the median of the blocks' means, in nanoseconds
//! of wall clock.
//!
//! To add a row: write a function that returns a [`TuneRow`]. Call it in [`tune`] if it needs only the core; otherwise
//! put it in the crate that it measures and append it to `TUNE_ROWS` of `python/src/linnet/studies/cli/bench.py`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

use linnet_core::raw::ffi;
use linnet_core::{
    Activation, CartOptions, DecisionTree, Error, FloatLayer, Loss, Normaliser, SmallNetwork, StepOptions, TreeNode,
    ring,
};
use linnet_sim::Chance;

/// Inputs of every block.
const ROWS: usize = 4_096;
/// KML's readahead network.
const SIZES: [i32; 4] = [5, 15, 5, 4];
const INPUTS: usize = 5;
/// Records in the ring (the same as the peer's), and words of each: five floats and a class.
const CAPACITY: usize = 32;
const WORDS: usize = 4;
/// The feature number that marks a leaf of the peer.
const LEAF: u16 = 0xffff;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneRow {
    /// `forward`, `train`, `tree`, `ring`.
    pub what: &'static str,
    /// Median of one call.
    pub ns_median: f64,
    /// Median of the plain re-implementation.
    pub peer_ns_median: f64,
    /// Heap allocations of one call, counted.
    pub allocations: f64,
    /// Allocations of the plain re-implementation.
    pub peer_allocations: f64,
    /// Bytes of memory that it keeps.
    pub bytes: usize,
    /// Bytes of the plain re-implementation, at its peak.
    pub peer_bytes: usize,
}

impl TuneRow {
    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        format!(
            "{{\"what\": \"{}\", \"ns_median\": {:.2}, \"peer_ns_median\": {:.2}, \"allocations\": {}, \
             \"peer_allocations\": {}, \"bytes\": {}, \"peer_bytes\": {}}}",
            self.what,
            self.ns_median,
            self.peer_ns_median,
            self.allocations,
            self.peer_allocations,
            self.bytes,
            self.peer_bytes
        )
    }
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter. The core's C does not allocate (its symbols are checked), so this counts the
/// wrappers.
struct Counting;

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[repr(C)]
struct Peer([u8; 0]);
#[repr(C)]
struct PeerNode([u8; 0]);
#[repr(C)]
struct PeerRing([u8; 0]);

unsafe extern "C" {
    fn linnet_peer_new(sizes: *const i32, count: i32, values: *const f32) -> *mut Peer;
    fn linnet_peer_free(peer: *mut Peer);
    fn linnet_peer_allocations(peer: *const Peer) -> u64;
    fn linnet_peer_bytes(peer: *const Peer) -> u64;
    fn linnet_peer_forward(peer: *mut Peer, row: *const f32, out: *mut f32);
    fn linnet_peer_train(peer: *mut Peer, row: *const f32, class: i32, rate: f32, momentum: f32);
    fn linnet_peer_tree(words: *const u32, features: *const u16, rights: *const u16, at: u32) -> *mut PeerNode;
    fn linnet_peer_tree_predict(node: *const PeerNode, row: *const f32) -> i32;
    fn linnet_peer_tree_free(node: *mut PeerNode);
    fn linnet_peer_ring() -> *mut PeerRing;
    fn linnet_peer_ring_free(ring: *mut PeerRing);
    fn linnet_peer_ring_turn(ring: *mut PeerRing, record: *const u64, out: *mut u64);
}

/// The plain network, with the same values as ours.
struct PlainNetwork(*mut Peer);

impl PlainNetwork {
    fn of(layers: &[FloatLayer]) -> PlainNetwork {
        let values: Vec<f32> = layers.iter().flat_map(|layer| [&layer.weights[..], &layer.biases].concat()).collect();
        // SAFETY: the values are those of these sizes.
        PlainNetwork(unsafe { linnet_peer_new(SIZES.as_ptr(), SIZES.len() as i32, values.as_ptr()) })
    }

    fn forward(&self, row: &Row) -> [f32; 4] {
        let mut out = [0.0; 4];
        // SAFETY: a row and outputs of its sizes; one thread.
        unsafe { linnet_peer_forward(self.0, row.x.as_ptr(), out.as_mut_ptr()) };
        out
    }

    fn train(&self, row: &Row, step: &StepOptions) {
        // SAFETY: as above.
        unsafe { linnet_peer_train(self.0, row.x.as_ptr(), row.class as i32, step.learning_rate, step.momentum) };
    }

    fn counts(&self) -> (u64, usize) {
        // SAFETY: the peer lives.
        unsafe { (linnet_peer_allocations(self.0), linnet_peer_bytes(self.0) as usize) }
    }
}

impl Drop for PlainNetwork {
    fn drop(&mut self) {
        // SAFETY: made by `of`, freed once.
        unsafe { linnet_peer_free(self.0) };
    }
}

struct Row {
    x: [f32; INPUTS],
    class: usize,
}

/// Rows around 0, like z-scores, and a class that depends on three of the features.
fn rows(seed: u64) -> Vec<Row> {
    let mut chance = Chance::new(seed);
    let mut z = || (0..6).map(|_| chance.below(1 << 24) as f32 / (1u64 << 24) as f32).sum::<f32>() * 2.0 - 6.0;
    (0..ROWS)
        .map(|_| {
            let x = [z(), z(), z(), z(), z()];
            let class = usize::from(x[0] + 0.3 * z() > 0.2) + 2 * usize::from(x[3] * x[1] + 0.3 * z() > 0.1);
            Row { x, class }
        })
        .collect()
}

/// Medians of nanoseconds per call of each side, and allocations per call of ours.
fn race(blocks: usize, rows: &[Row], mut ours: impl FnMut(&Row), mut peer: impl FnMut(&Row)) -> (f64, f64, f64) {
    let (mut own, mut other, mut allocations) = (Vec::new(), Vec::new(), 0);
    let block = |call: &mut dyn FnMut(), times: &mut Vec<f64>| {
        let begun = Instant::now();
        call();
        times.push(begun.elapsed().as_nanos() as f64 / rows.len() as f64);
    };
    let mut chance = Chance::new(blocks as u64);
    for _ in 0..blocks {
        let (first, stride) = (chance.below(ROWS as u64) as usize, 2 * chance.below(ROWS as u64 / 2) as usize + 1);
        let order = || (0..ROWS).map(|k| &rows[first.wrapping_add(k.wrapping_mul(stride)) % ROWS]);
        let before = ALLOCATIONS.get();
        let mut run = || order().for_each(&mut ours);
        block(&mut run, &mut own);
        // The vector of times may have grown, at most once per block.
        allocations += (ALLOCATIONS.get() - before).saturating_sub(1);
        let mut run = || order().for_each(&mut peer);
        block(&mut run, &mut other);
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(&mut own), median(&mut other), allocations as f64 / (blocks * rows.len()) as f64)
}

/// One row for each operation of a tuner, over this many blocks.
pub fn tune(blocks: usize, seed: u64) -> Result<Vec<TuneRow>, Error> {
    let rows = rows(seed);
    Ok(vec![forward(blocks, seed, &rows)?, train(blocks, seed, &rows)?, tree(blocks, &rows)?, turn(blocks, &rows)?])
}

fn network(seed: u64) -> Result<SmallNetwork, Error> {
    let layers = [(15, Activation::Sigmoid), (5, Activation::Sigmoid), (4, Activation::Linear)];
    SmallNetwork::new(INPUTS, &layers, seed)
}

/// Bytes of the core's structs: the network with its training state, and the normaliser.
fn state_bytes(network: &SmallNetwork) -> Result<usize, Error> {
    Ok(network.bytes() + size_of::<ffi::Normaliser>() + size_of_val(Normaliser::new(INPUTS, 0)?.moments()))
}

fn forward(blocks: usize, seed: u64, rows: &[Row]) -> Result<TuneRow, Error> {
    let ours = network(seed)?;
    let peer = PlainNetwork::of(&ours.layers());
    let mut out = [0.0; 4];
    let before = peer.counts().0;
    let (ns_median, peer_ns_median, allocations) = race(
        blocks,
        rows,
        |row| {
            ours.forward(&row.x, &mut out).expect("rows are of the network's size");
            black_box(&out);
        },
        |row| {
            black_box(peer.forward(row));
        },
    );
    let (made, peer_bytes) = peer.counts();
    let peer_allocations = (made - before) as f64 / (blocks * rows.len()) as f64;
    let bytes = state_bytes(&ours)?;
    Ok(TuneRow { what: "forward", ns_median, peer_ns_median, allocations, peer_allocations, bytes, peer_bytes })
}

fn train(blocks: usize, seed: u64, rows: &[Row]) -> Result<TuneRow, Error> {
    let mut ours = network(seed)?;
    let peer = PlainNetwork::of(&ours.layers());
    let step = StepOptions { loss: Loss::SoftmaxCrossEntropy, learning_rate: 0.01, momentum: 0.9 };
    let before = peer.counts().0;
    let (ns_median, peer_ns_median, allocations) = race(
        blocks,
        rows,
        |row| {
            black_box(ours.train_class(&step, &row.x, row.class).expect("a row of the network's shape"));
        },
        |row| peer.train(row, &step),
    );
    let (made, peer_bytes) = peer.counts();
    let peer_allocations = (made - before) as f64 / (blocks * rows.len()) as f64;
    let bytes = state_bytes(&ours)?;
    Ok(TuneRow { what: "train", ns_median, peer_ns_median, allocations, peer_allocations, bytes, peer_bytes })
}

/// A tree of 59 nodes, the size of KML's.
fn induced(rows: &[Row]) -> Result<DecisionTree, Error> {
    let values: Vec<f32> = rows.iter().flat_map(|row| row.x).collect();
    let classes: Vec<u8> = rows.iter().map(|row| row.class as u8).collect();
    DecisionTree::fit(
        &CartOptions { depth_max: 9, leaf_rows: 1, leaves_max: 30 },
        INPUTS,
        &values,
        &classes,
        4,
        &mut || true,
    )
}

/// The plain tree, with the same nodes as ours.
struct PlainTree(*mut PeerNode);

impl PlainTree {
    fn of(tree: &DecisionTree) -> PlainTree {
        let nodes = tree.nodes();
        let splits = nodes.iter().map(TreeNode::question);
        let (words, features): (Vec<u32>, Vec<u16>) =
            splits.map(|split| split.map_or((0, LEAF), |(feature, t)| (t.to_bits(), feature as u16))).unzip();
        let rights: Vec<u16> = nodes.iter().map(TreeNode::right).collect();
        // SAFETY: three arrays of a checked tree's nodes.
        PlainTree(unsafe { linnet_peer_tree(words.as_ptr(), features.as_ptr(), rights.as_ptr(), 0) })
    }

    fn predict(&self, row: &Row) -> usize {
        // SAFETY: a row of the tree's features.
        unsafe { linnet_peer_tree_predict(self.0, row.x.as_ptr()) as usize }
    }
}

impl Drop for PlainTree {
    fn drop(&mut self) {
        // SAFETY: made by `of`, freed once.
        unsafe { linnet_peer_tree_free(self.0) };
    }
}

fn tree(blocks: usize, rows: &[Row]) -> Result<TuneRow, Error> {
    let ours = induced(rows)?;
    let peer = PlainTree::of(&ours);
    let (ns_median, peer_ns_median, allocations) = race(
        blocks,
        rows,
        |row| {
            black_box(ours.predict(&row.x));
        },
        |row| {
            black_box(peer.predict(row));
        },
    );
    // A node of the peer: three numbers, two pointers.
    let peer_bytes = 32 * ours.nodes().len();
    let bytes = ours.bytes();
    Ok(TuneRow { what: "tree", ns_median, peer_ns_median, allocations, peer_allocations: 0.0, bytes, peer_bytes })
}

/// Puts and takes a record on one thread: the cost of the instructions, without the transfer between two CPUs.
fn turn(blocks: usize, rows: &[Row]) -> Result<TuneRow, Error> {
    let (mut producer, mut consumer) = ring(CAPACITY, WORDS)?;
    // SAFETY: freed below, used by this thread only.
    let peer = unsafe { linnet_peer_ring() };
    let record = |row: &Row| [u64::from(row.x[0].to_bits()), u64::from(row.x[1].to_bits()), 0, row.class as u64];
    let mut out = [0; WORDS];
    let (ns_median, peer_ns_median, allocations) = race(
        blocks,
        rows,
        |row| {
            black_box(producer.put(&record(row)) && consumer.take(&mut out));
        },
        |row| {
            let mut out = [0; WORDS];
            // SAFETY: records of the peer's size.
            unsafe { linnet_peer_ring_turn(peer, record(row).as_ptr(), out.as_mut_ptr()) };
            black_box(out);
        },
    );
    // SAFETY: made above.
    unsafe { linnet_peer_ring_free(peer) };
    let bytes = size_of::<ffi::Ring>() + 8 * CAPACITY * WORDS;
    let peer_bytes = 24 + CAPACITY * (4 + 8 + 8 * WORDS);
    Ok(TuneRow { what: "ring", ns_median, peer_ns_median, allocations, peer_allocations: 0.0, bytes, peer_bytes })
}

#[test]
fn the_peer_computes_the_same() {
    let rows = rows(3);
    let mut ours = network(3).unwrap();
    let peer = PlainNetwork::of(&ours.layers());
    let step = StepOptions { loss: Loss::SoftmaxCrossEntropy, learning_rate: 0.01, momentum: 0.9 };
    let mut out = [0.0; 4];
    for row in &rows[..500] {
        ours.forward(&row.x, &mut out).unwrap();
        for (a, b) in out.iter().zip(peer.forward(row)) {
            assert!((a - b).abs() < 1e-3, "{out:?}");
        }
        ours.train_class(&step, &row.x, row.class).unwrap();
        peer.train(row, &step);
    }
    let tree = induced(&rows).unwrap();
    assert_eq!((tree.nodes().len(), tree.is_fast()), (59, true));
    let peer = PlainTree::of(&tree);
    assert!(rows.iter().all(|row| tree.predict(&row.x) == peer.predict(row)));
    assert!(rows.iter().filter(|row| tree.predict(&row.x) == row.class).count() > ROWS / 2);
}

#[test]
fn rows_with_few_blocks() {
    for row in tune(2, 1).unwrap() {
        assert!(row.ns_median > 0.0 && row.peer_ns_median > 0.0, "{row:?}");
        assert!(row.allocations == 0.0 && row.bytes > 0, "{row:?}");
        assert!(row.what == "ring" || row.bytes <= 2048, "{row:?}");
    }
}
