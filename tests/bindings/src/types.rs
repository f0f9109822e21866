// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types as the calling convention sees them.

use std::fmt;

/// The type of a field or an argument, with aliases resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Void, or the target of a `void *`.
    Void,
    /// An integer or a float, by Rust's name. `usize` is `u64`: the core needs a target of 64 bits.
    Number(&'static str),
    /// A pointer or a reference.
    Pointer {
        /// Whether it may be written through.
        mutable: bool,
        /// The target type.
        to: Box<Type>,
    },
    /// An array with a length.
    Array(Box<Type>, u64),
    /// A pointer to a function; its signature is not compared.
    Function,
    /// A struct or union.
    Record(Key),
}

/// The index of a file and a name in it: two files may use the same name.
pub type Key = (usize, String);

/// Number types of C, with their sizes in bytes. Integers of C are those of 64-bit Linux.
const NUMBERS: &[(&str, &str, u64)] = &[
    ("u8", "u8", 1),
    ("u16", "u16", 2),
    ("u32", "u32", 4),
    ("u64", "u64", 8),
    ("u128", "u128", 16),
    ("usize", "u64", 8),
    ("i8", "i8", 1),
    ("i16", "i16", 2),
    ("i32", "i32", 4),
    ("i64", "i64", 8),
    ("i128", "i128", 16),
    ("isize", "i64", 8),
    ("f32", "f32", 4),
    ("f64", "f64", 8),
    ("bool", "bool", 1),
    ("AtomicU32", "u32", 4),
    ("AtomicU64", "u64", 8),
    ("c_char", "i8", 1),
    ("c_schar", "i8", 1),
    ("c_uchar", "u8", 1),
    ("c_short", "i16", 2),
    ("c_ushort", "u16", 2),
    ("c_int", "i32", 4),
    ("c_uint", "u32", 4),
    ("c_long", "i64", 8),
    ("c_ulong", "u64", 8),
    ("c_longlong", "i64", 8),
    ("c_ulonglong", "u64", 8),
    ("c_float", "f32", 4),
    ("c_double", "f64", 8),
];

/// The number type with this name.
pub fn number(name: &str) -> Option<Type> {
    NUMBERS.iter().find(|(own, ..)| *own == name).map(|(_, number, _)| Type::Number(number))
}

/// Size in bytes of a number type; also its alignment.
pub fn number_bytes(name: &str) -> u64 {
    NUMBERS.iter().find(|(own, ..)| *own == name).map_or(0, |(_, _, bytes)| *bytes)
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Type::Void => write!(out, "void"),
            Type::Number(name) => write!(out, "{name}"),
            Type::Pointer { mutable, to } => write!(out, "*{} {to}", if *mutable { "mut" } else { "const" }),
            Type::Array(of, len) => write!(out, "[{of}; {len}]"),
            Type::Function => write!(out, "a function"),
            Type::Record((_, name)) => write!(out, "{name}"),
        }
    }
}
