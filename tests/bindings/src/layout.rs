// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes and offsets: for Rust computed by the rules of C, for C as clang reported them to bindgen.

use crate::source::Source;
use crate::types::{Key, Type, number_bytes};

/// Bytes, alignment, and offset of each field.
pub struct Layout {
    /// Bytes.
    pub size: u64,
    align: u64,
    /// In order of the fields.
    pub offsets: Vec<u64>,
}

/// The memory layout of a type.
///
/// # Errors
/// The type contains a type that C does not have.
pub fn layout(source: &Source, ty: &Type) -> Result<Layout, String> {
    let of = |size, align| Ok(Layout { size, align, offsets: Vec::new() });
    match ty {
        Type::Void => of(0, 1),
        Type::Number(name) => of(number_bytes(name), number_bytes(name)),
        Type::Pointer { .. } | Type::Function => of(8, 8),
        Type::Array(inner, len) => {
            let one = layout(source, inner)?;
            of(one.size * len, one.align)
        }
        Type::Record(key) => record(source, key),
    }
}

/// The memory layout of a record.
///
/// # Errors
/// Those of [`layout`].
pub fn record(source: &Source, key: &Key) -> Result<Layout, String> {
    let own = &source.records[key];
    let mut found = Layout { size: 0, align: 1, offsets: Vec::new() };
    for (_, ty) in &own.fields {
        let field = layout(source, &source.resolve(key.0, ty)?)?;
        let offset = if own.union { 0 } else { found.size.next_multiple_of(field.align) };
        found.offsets.push(offset);
        found.size = found.size.max(offset + field.size);
        found.align = found.align.max(field.align);
    }
    found.size = found.size.next_multiple_of(found.align);
    Ok(found)
}

/// The checks that bindgen adds to its output. They are text: `assert_eq!` in functions, or constants since 0.70.
pub struct Asserted(String);

impl Asserted {
    /// From this output of bindgen.
    pub fn new(text: &str) -> Asserted {
        Asserted(text.split_whitespace().collect())
    }

    /// Bytes of a struct.
    pub fn size(&self, name: &str) -> Option<u64> {
        let after = self.0.split(&format!("size_of::<{name}>()")).nth(1)?;
        leading_number(after.trim_start_matches([',', '-']))
    }

    /// Offset of a field.
    pub fn offset(&self, name: &str, field: &str) -> Option<u64> {
        if let Some(after) = self.0.split(&format!("offset_of!({name},{field})-")).nth(1) {
            return leading_number(after);
        }
        let checks = self.0.split(&format!("fnbindgen_test_layout_{name}()")).nth(1)?;
        let after = checks.split(&format!("(*ptr).{field})asusize-ptrasusize}},")).nth(1)?;
        leading_number(after)
    }
}

fn leading_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
