// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model file that decides for an NFS mount: of schema `nfs-1` on the client's reads (`feature.rs`), or of schema
//! `readahead-1` on the page cache's demands.
//!
//! It is trusted no more than the rule after as few reads. Where it is unsure, or nothing was sent, the rule answers.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use linnet_core::{Knob, SCHEMA_NFS1, SCHEMA_READAHEAD1, Unit};

use crate::error::{Error, Result};
use crate::feature::Features;
use crate::model::{Model, read_knob};
use crate::nfs::feature::{NAMES, row};
use crate::nfs::path::SCAN_MAX_KIB;
use crate::nfs::rule::NfsRule;
use crate::rule::{Class, DEFAULT_KIB, Decider, FileReads, Verdict, certainty, scattered};

/// The smallest value that a model may set, in KiB.
const VALUE_MIN_KIB: u32 = 8;

enum Kind {
    Reads(Knob),
    Demands(Model),
}

/// The model, and the rule for what it is not sure of.
pub struct NfsModel {
    kind: Kind,
    rule: Rc<NfsRule>,
}

impl NfsModel {
    /// Reads a model file of either schema.
    pub fn read(path: &Path, rule: Rc<NfsRule>) -> Result<NfsModel> {
        NfsModel::of(read_knob(path)?, path, rule)
    }

    /// A model that is in memory. `path` is for errors.
    pub fn of(knob: Knob, path: &Path, rule: Rc<NfsRule>) -> Result<NfsModel> {
        let refuse = |what: String| Err(Error::Format { path: PathBuf::from(path), what });
        if knob.schema == SCHEMA_READAHEAD1 {
            return Ok(NfsModel { kind: Kind::Demands(Model::of(knob, path)?), rule });
        }
        if knob.schema != SCHEMA_NFS1 {
            let schema = knob.schema;
            return refuse(format!(
                "schema is {schema}; a model for NFS has {SCHEMA_NFS1} (nfs-1) or {SCHEMA_READAHEAD1} (readahead-1)"
            ));
        }
        let inputs = knob.normaliser.inputs();
        if inputs != NAMES.len() {
            return refuse(format!("inputs is {inputs}; the features of nfs-1 are {}", NAMES.len()));
        }
        if knob.unit != Unit::Kib {
            return refuse(format!("unit is {:?}; readahead is set in KiB", knob.unit));
        }
        let fits = |kib: u32| (VALUE_MIN_KIB..=SCAN_MAX_KIB).contains(&kib) && kib.is_power_of_two();
        if let Some((class, kib)) = knob.values.iter().enumerate().find(|(_, kib)| !fits(**kib)) {
            return refuse(format!(
                "value {class} is {kib} KiB; values are powers of two from {VALUE_MIN_KIB} to {SCAN_MAX_KIB}"
            ));
        }
        Ok(NfsModel { kind: Kind::Reads(knob), rule })
    }

    /// True for a model on the page cache's demands.
    pub fn needs_demands(&self) -> bool {
        matches!(self.kind, Kind::Demands(_))
    }

    fn by_reads(&self, knob: &Knob, features: &Features) -> Option<Verdict> {
        let rule = self.rule.decide(features)?;
        let instead = |reason: String| {
            let why = format!("{reason}, the rule says {}", rule.why);
            Some(Verdict { why, ..rule.clone() })
        };
        if features.rpcs.matched == 0 {
            return instead("nothing was read from the server".into());
        }
        let (kib, sure) = match knob.decide(&row(&features.rpcs)) {
            Ok((_, kib, sure)) => (kib, sure),
            Err(error) => return instead(format!("the model fails ({error})")),
        };
        if sure < knob.confidence {
            return instead(format!("the model is unsure ({sure:.2} for {kib} KiB)"));
        }
        let kib = kib.max(self.rule.least_kib());
        let (class, seen) = match kib {
            _ if kib <= VALUE_MIN_KIB.max(self.rule.least_kib()) => (Class::Random, scattered(features)),
            _ if kib < DEFAULT_KIB => (Class::Runs, scattered(features)),
            _ if features.reverse_share > 0.5 => (Class::Reverse, certainty(features.accesses)),
            _ => (Class::Sequential, certainty(features.accesses)),
        };
        let latency = 1e3 * features.rpcs.latency().unwrap_or(0.0);
        let reads = features.rpcs.reads;
        let why = format!("model, {sure:.2} sure: {}: {reads} reads of the server, {latency:.2} ms each", class.name());
        Some(Verdict { class, kib: Some(kib), confidence: sure.min(seen), why })
    }
}

impl Decider for NfsModel {
    fn name(&self) -> &str {
        "model"
    }

    fn decide(&self, features: &Features) -> Option<Verdict> {
        match &self.kind {
            Kind::Reads(knob) => self.by_reads(knob, features),
            Kind::Demands(model) => model.decide(features),
        }
    }

    fn ordered_kib(&self, original_kib: u32) -> u32 {
        self.rule.ordered_kib(original_kib)
    }

    fn jump_pages(&self) -> f64 {
        self.rule.jump_pages()
    }

    fn is_judged(&self, class: Class) -> bool {
        self.rule.is_judged(class)
    }

    fn note(&self, now: Duration, reading: &FileReads) {
        self.rule.note(now, reading);
    }
}

#[cfg(test)]
mod tests {
    use linnet_core::{DecisionTree, Moments, Normaliser, TreeNode};

    use super::*;
    use crate::nfs::path;
    use crate::nfs::rpc::Rpcs;
    use crate::observe::Counts;

    const INDEX: u16 = 5;

    /// Pages that follow each other ask for 2 MiB, others for 8 KiB.
    fn knob() -> Knob {
        let nodes = vec![TreeNode::split(INDEX, 0.5, 2), TreeNode::leaf(1, 990_000), TreeNode::leaf(0, 980_000)];
        let moments = vec![Moments { mean: 0.5, variance: 0.0625 }; NAMES.len()];
        Knob {
            schema: SCHEMA_NFS1,
            unit: Unit::Kib,
            values: vec![8, 2048],
            normaliser: Normaliser::from_moments(moments, 1000, 0).expect("a normaliser"),
            network: None,
            tree: Some(DecisionTree::from_nodes(nodes, NAMES.len(), 2).expect("a tree")),
            confidence: 0.7,
            accuracy: 0.95,
            rows: 1000,
            seed: 1,
        }
    }

    fn rule() -> Rc<NfsRule> {
        Rc::new(NfsRule::new(path::Path::new(128, true)))
    }

    fn features(index_pages: u64) -> Features {
        let counts = Counts { accesses: 400, pages: 400, jumps: 400, added: 400, ..Counts::default() };
        let rpcs = Rpcs {
            reads: 400,
            matched: 400,
            latency_ns: 400_000_000,
            index_diffs: 1,
            index_pages,
            elapsed_ns: 1_000_000_000,
            ..Rpcs::default()
        };
        Features { rpcs, ..Features::of(&counts, true) }
    }

    #[test]
    fn the_model_decides_where_it_is_sure_and_something_was_read() {
        let model = NfsModel::of(knob(), Path::new("m.linnet"), rule()).expect("a model");
        let verdict = model.decide(&features(1)).expect("a verdict");
        assert_eq!((verdict.class, verdict.kib), (Class::Sequential, Some(2048)));
        assert!(verdict.why.starts_with("model, 0.99 sure: sequential: 400 reads of the server, 1.00 ms"));
        let verdict = model.decide(&features(1 << 20)).expect("a verdict");
        assert_eq!((verdict.class, verdict.kib), (Class::Random, Some(8)));
        let cached = Features { rpcs: Rpcs::default(), ..features(1) };
        let verdict = model.decide(&cached).expect("a verdict");
        assert!(verdict.why.starts_with("nothing was read from the server, the rule says random"), "{}", verdict.why);
        let shy = Knob { confidence: 0.999, ..knob() };
        let shy = NfsModel::of(shy, Path::new("m.linnet"), rule()).expect("a model");
        let verdict = shy.decide(&features(1)).expect("a verdict");
        assert!(verdict.why.starts_with("the model is unsure (0.99 for 2048 KiB), the rule says"), "{}", verdict.why);
    }

    #[test]
    fn no_value_is_below_a_page() {
        let rule = Rc::new(NfsRule::of_pages(path::Path::new(128, true), 64));
        let model = NfsModel::of(knob(), Path::new("m.linnet"), rule).expect("a model");
        let verdict = model.decide(&features(1 << 20)).expect("a verdict");
        assert_eq!((verdict.class, verdict.kib), (Class::Random, Some(64)));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_file_and_field() {
        let refused =
            |knob: Knob| NfsModel::of(knob, Path::new("m.linnet"), rule()).err().expect("refused").to_string();
        let text = refused(Knob { schema: linnet_core::SCHEMA_PRIVATE, ..knob() });
        assert!(text.starts_with("m.linnet: schema is 32768; a model for NFS has 4 (nfs-1) or 3"), "{text}");
        let text = refused(Knob { unit: Unit::Bytes, ..knob() });
        assert!(text.starts_with("m.linnet: unit is Bytes"), "{text}");
        let text = refused(Knob { values: vec![8, 100], ..knob() });
        assert!(text.starts_with("m.linnet: value 1 is 100 KiB; values are powers of two"), "{text}");
    }

    #[test]
    fn a_written_file_is_read_back() {
        let bytes = knob().to_bytes().expect("a file");
        assert_eq!(Knob::from_bytes(&bytes).expect("a model"), knob());
    }
}
