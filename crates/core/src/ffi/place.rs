// SPDX-License-Identifier: MIT OR Apache-2.0
//! `core/place.h`: forests of regression trees.

pub const KIND_FOREST: u16 = 3;
pub const SCHEMA_PLACE1: u16 = 5;
pub const FOREST_INPUTS_MAX: usize = 254;
pub const FOREST_OUTPUTS_MAX: usize = 64;
pub const FOREST_TREES_MAX: usize = 65536;
pub const FOREST_NODES_MAX: usize = (1 << 24) - 1;
pub const FOREST_NAME: usize = 40;
pub const FOREST_ROWS: usize = 16;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ForestCell {
    pub key: [i32; 7],
    pub exits: u32,
    pub feature: [u8; 8],
    pub cell: u32,
    pub value: u32,
    pub spare: [u32; 4],
}

#[repr(C)]
pub struct ForestFile {
    pub schema: u16,
    pub inputs: u16,
    pub outputs: u32,
    pub tree_count: u32,
    pub node_count: u32,
    pub value_count: u32,
    pub cell_count: u32,
    pub rows: u64,
    pub seed: u64,
    pub names: *const u8,
    pub tree_nodes: *const u8,
    pub features: *const u8,
    pub thresholds: *const u8,
    pub values: *const u8,
}

#[repr(C)]
pub struct Forest {
    pub inputs: u32,
    pub outputs: u32,
    pub roots: *const u32,
    pub cells: *const ForestCell,
    pub values: *const f64,
    pub first: [u32; FOREST_OUTPUTS_MAX + 1],
}

const _: () = assert!(size_of::<ForestCell>() == 64 && size_of::<ForestFile>() == 80);
const _: () = assert!(size_of::<Forest>() == 32 + 4 * (FOREST_OUTPUTS_MAX + 1) + 4);

unsafe extern "C" {
    pub fn linnet_forest_read(bytes: *const u8, size: usize, file: *mut ForestFile, offset: *mut usize) -> i32;
    pub fn linnet_forest_load(
        file: *const ForestFile,
        roots: *mut u32,
        cells: *mut ForestCell,
        values: *mut f64,
        forest: *mut Forest,
    );
    pub fn linnet_forest_predict(
        forest: *const Forest,
        rows: *const f32,
        count: u32,
        scratch: *mut i32,
        out: *mut f64,
    ) -> i32;
}
