// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of latencies: each number may equal its neighbours and must not descend, in the struct and in a file.

use linnet_core::raw::ffi;
use linnet_core::{Error, Latencies, Model, ModelFault, Predictions, Trees};
use linnet_types::Thresholds;

/// Bytes of the block, and where the feature, its edges and the latencies begin.
const BLOCK: usize = 2628;
const FEATURE: usize = 60;
const NS: usize = 68;

fn number(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().unwrap())
}

/// The first number that may not be where it is.
fn wrong(block: &[u8]) -> Option<usize> {
    let edge = |at: usize| number(block, at) as i32;
    let score = (4..FEATURE).step_by(4).find(|&at| edge(at) < edge(at - 4));
    let feature = (block[FEATURE] > 15).then_some(FEATURE);
    let edges = (FEATURE + 1..NS).find(|&at| block[at] > 63 || (at > FEATURE + 1 && block[at] < block[at - 1]));
    let ns = |share: usize, cell: usize| number(block, NS + 4 * (5 * cell + share));
    let bins = (0..640).find(|n| {
        let (share, cell) = (n % 5, n / 5);
        let own = ns(share, cell);
        // Eight cells are a bin of scores.
        (share > 0 && own < ns(share - 1, cell)) || (cell >= 8 && own < ns(share, cell - 8))
    });
    score.or(feature).or(edges).or(bins.map(|n| NS + 4 * n))
}

/// The table of a block, of which nothing has been checked.
fn table(block: &[u8]) -> Result<Latencies, Error> {
    let ns = |s, f, k| number(block, NS + 4 * (5 * (8 * s + f) + k));
    Latencies::new(
        std::array::from_fn(|i| number(block, 4 * i) as i32),
        block[FEATURE],
        std::array::from_fn(|i| block[FEATURE + 1 + i]),
        std::array::from_fn(|s| std::array::from_fn(|f| std::array::from_fn(|k| ns(s, f, k)))),
    )
}

#[test]
fn no_number_of_a_table_descends() {
    let equal = Latencies::new([7; 15], 15, [63; 7], [[[9; 5]; 8]; 16]).unwrap();
    let model = Model {
        network: None,
        trees: Some(Trees::new(&[], 0).unwrap()),
        predictions: Predictions { latencies: Some(equal) },
        thresholds: Thresholds::default(),
        inflection_percentile: 0.0,
        false_submit: 0.0,
        rows: 0,
        seed: 0,
    };
    let good = model.to_bytes().unwrap();
    let at = good.len() - 4 - BLOCK;
    let bytes = (FEATURE..NS).map(|at| (at, 1));
    let words = (0..FEATURE).chain(NS..BLOCK).step_by(4).map(|at| (at, 4));
    for (place, size) in bytes.chain(words) {
        for change in [0u32, 1, u32::MAX] {
            let mut file = good.clone();
            let own = &mut file[at + place..at + place + size];
            let mut changed = [0; 4];
            changed[..size].copy_from_slice(own);
            changed = u32::from_le_bytes(changed).wrapping_add(change).to_le_bytes();
            own.copy_from_slice(&changed[..size]);
            let end = file.len() - 4;
            // SAFETY: reads the file.
            let checksum = unsafe { ffi::linnet_crc32c(file.as_ptr(), end) };
            file[end..].copy_from_slice(&checksum.to_le_bytes());

            let block = &file[at..end];
            let expected = wrong(block).map(|told| Error::Model { fault: ModelFault::Field, offset: at + told });
            let read = Model::from_bytes(&file);
            assert_eq!(read.as_ref().err(), expected.as_ref(), "byte {place}, {change:x} more");
            let made = table(block);
            assert_eq!(made.is_err(), expected.is_some(), "byte {place}, {change:x} more");
            assert_eq!(read.ok().and_then(|model| model.predictions.latencies), made.ok());
        }
    }
}
