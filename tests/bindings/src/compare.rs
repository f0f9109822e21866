// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the Rust declarations with those of the headers. Functions are matched by name. A record of Rust is matched
//! with the record of C at the same position in a signature or in a field, so its name may differ.

use std::collections::BTreeMap;

use crate::layout::{Asserted, record};
use crate::source::{Foreign, Source};
use crate::types::{Key, Type};

/// All differences, one line each, and how much was compared.
#[derive(Default)]
pub struct Report {
    /// The differences.
    pub differences: Vec<String>,
    /// Functions and statics that were compared.
    pub functions: usize,
    /// Records of Rust with the matching records of C.
    pub records: BTreeMap<Key, Key>,
    /// Constants that were compared.
    pub constants: usize,
}

/// Compares `rust` with bindgen's output `text`. `constants_of` is the start of the names of the
/// files of `rust` with the constants of C.
///
/// # Errors
/// Output of bindgen that is not Rust code.
pub fn compare(rust: &Source, constants_of: &str, text: &str) -> Result<Report, String> {
    let mut c = Source::default();
    c.read("bindgen's output", text)?;
    let mut comparison = Comparison { rust, c: &c, asserted: Asserted::new(text), report: Report::default() };
    rust.foreign.iter().for_each(|one| comparison.foreign(one));
    comparison.constants(constants_of);
    Ok(comparison.report)
}

struct Comparison<'a> {
    rust: &'a Source,
    c: &'a Source,
    asserted: Asserted,
    report: Report,
}

impl Comparison<'_> {
    fn differs(&mut self, line: String) {
        self.report.differences.push(line);
    }

    /// The name in C: the same, or for a variant for one instruction set, the name without the variant.
    fn of_c(&self, name: &str) -> Option<&'static str> {
        let base = ["_avx2", "_avx512"].iter().find_map(|set| name.strip_suffix(set));
        let names = [Some(name.to_string()), base.map(|base| format!("{base}_portable")), base.map(String::from)];
        let found = names.into_iter().flatten().find(|name| self.c.foreign.iter().any(|one| one.name == *name))?;
        Some(found.leak())
    }

    fn foreign(&mut self, ours: &Foreign) {
        let at = format!("{}: {}", self.rust.files[ours.file], ours.name);
        let Some(name) = self.of_c(&ours.name) else {
            return self.differs(format!("{at}: not in the headers"));
        };
        let (rust, c) = (self.rust, self.c);
        let theirs = c.foreign.iter().find(|one| one.name == name).expect("it was found by its name");
        self.report.functions += 1;
        if ours.inputs.len() != theirs.inputs.len() {
            let (here, there) = (ours.inputs.len(), theirs.inputs.len());
            return self.differs(format!("{at}: {here} arguments, {there} in C"));
        }
        for (n, (one, other)) in ours.inputs.iter().zip(&theirs.inputs).enumerate() {
            let (one, other) = (rust.resolve(ours.file, one), c.resolve(theirs.file, other));
            self.types(&format!("{at}: argument {}", n + 1), one, other);
        }
        let result = |source: &Source, of: &Foreign| match &of.output {
            Some(ty) => source.resolve(of.file, ty),
            None => Ok(Type::Void),
        };
        self.types(&format!("{at}: result"), result(rust, ours), result(c, theirs));
    }

    fn types(&mut self, at: &str, ours: Result<Type, String>, theirs: Result<Type, String>) {
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => self.same(at, &ours, &theirs),
            (ours, theirs) => {
                let wrong = [ours.err(), theirs.err()].into_iter().flatten().collect::<Vec<_>>().join("; ");
                self.differs(format!("{at}: {wrong}"));
            }
        }
    }

    fn same(&mut self, at: &str, ours: &Type, theirs: &Type) {
        match (ours, theirs) {
            (Type::Pointer { mutable: a, to: one }, Type::Pointer { mutable: b, to: other }) if a == b => {
                self.same(at, one, other);
            }
            (Type::Array(one, a), Type::Array(other, b)) if a == b => self.same(at, one, other),
            (Type::Record(one), Type::Record(other)) => self.meet(at, one, other),
            // The core writes and reads these bytes as 0 or 1; its headers say so.
            (Type::Number("bool"), Type::Number("u8")) => {}
            (one, other) if one == other => {}
            (one, other) => self.differs(format!("{at}: {one}, {other} in C")),
        }
    }

    fn meet(&mut self, at: &str, ours: &Key, theirs: &Key) {
        match self.report.records.get(ours) {
            Some(before) if before == theirs => return,
            Some(before) => {
                return self.differs(format!("{at}: {} is {} here and {} before", ours.1, theirs.1, before.1));
            }
            None => self.report.records.insert(ours.clone(), theirs.clone()),
        };
        let (rust, c) = (self.rust, self.c);
        let (own, other) = (&rust.records[ours], &c.records[theirs]);
        let at = format!("{}: {}", rust.files[ours.0], ours.1);
        // If Rust only keeps the address of a record, its fields are private, and C's headers may not define it either.
        let opaque = own.fields.iter().all(|(name, _)| name.starts_with('_') || name == "0");
        let undefined = other.fields.iter().all(|(name, _)| name.starts_with('_'));
        if undefined && opaque {
            return;
        }
        match record(rust, ours) {
            Err(wrong) => return self.differs(format!("{at}: {wrong}")),
            Ok(layout) if opaque && layout.size == 0 => return,
            Ok(layout) => self.sizes(&at, ours, theirs, layout.size, &layout.offsets),
        }
        if opaque {
            return;
        }
        if own.fields.len() != other.fields.len() {
            return self.differs(format!("{at}: {} fields, {} in C", own.fields.len(), other.fields.len()));
        }
        for ((name, one), (named, other)) in own.fields.iter().zip(&other.fields) {
            if name != named {
                self.differs(format!("{at}.{name}: {named} in C"));
            }
            self.types(&format!("{at}.{name}"), rust.resolve(ours.0, one), c.resolve(theirs.0, other));
        }
    }

    /// Compares with the sizes and offsets of clang.
    fn sizes(&mut self, at: &str, ours: &Key, theirs: &Key, size: u64, offsets: &[u64]) {
        let there = self.asserted.size(&theirs.1);
        if there != Some(size) {
            self.differs(format!("{at}: {size} bytes, {there:?} in C"));
        }
        let (own, other) = (&self.rust.records[ours], &self.c.records[theirs]);
        for ((field, _), offset) in other.fields.iter().zip(offsets).take(own.fields.len()) {
            let there = self.asserted.offset(&theirs.1, field);
            if there != Some(*offset) {
                self.differs(format!("{at}: {field} at {offset}, at {there:?} in C"));
            }
        }
    }

    fn constants(&mut self, files: &str) {
        for ((at, name), expression) in &self.rust.constants {
            if name == "_" || !self.rust.files[*at].starts_with(files) {
                continue;
            }
            let (key, here) = ((0, format!("LINNET_{name}")), self.rust.value(*at, expression));
            let there = self.c.constants.get(&key).map(|expression| self.c.value(0, expression));
            self.report.constants += 1;
            if there.as_ref() != Some(&here) {
                let file = &self.rust.files[*at];
                self.differs(format!("{file}: {name} is {here:?}, {} in C is {there:?}", key.1));
            }
        }
    }
}
