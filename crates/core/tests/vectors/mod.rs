// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the golden vectors of `spec/vectors`: the slow references here write them, and the core is checked against
//! them.
//!
//! `LINNET_WRITE_VECTORS=1 cargo test -p linnet-core --test tests vectors` writes them again; otherwise the files must equal
//! the output of these references.

mod decisions;
mod features;
mod models;
mod networks;
mod refused;
mod text;

use std::collections::BTreeSet;

use crate::common::root;

#[test]
fn no_vector_is_left_over() {
    let kept = |folder: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(root().join("spec/vectors").join(folder)).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!((kept("models"), kept("reject")), (models::names(), refused::names()));
}
