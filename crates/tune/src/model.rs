// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model file that decides. The network or tree names a class from a window's features, and the class has a value.
//!
//! Features do not say how many reads they rest on: one read gives the same row as a thousand of its kind. So a
//! verdict's confidence is the smaller of the model's own and of the certainty that the rule has at as many
//! observations (`core/verdict.c`, for the kernel module too). Where the model's own is below the floor in its file, the
//! rule answers.

use std::path::{Path, PathBuf};

use linnet_core::{Knob, SCHEMA_READAHEAD1, Unit};

use crate::error::{Error, Result};
use crate::feature::{Features, NAMES};
use crate::rule::{Decider, LADDER_KIB, Rule, Verdict};

/// Larger files are not models of readahead: the reader's bounds allow some hundred KiB.
const BYTES_MAX: u64 = 1 << 20;

/// A model of readahead, and the rule for what it is not sure of.
#[derive(Debug, Clone)]
pub struct Model {
    knob: Knob,
    rule: Rule,
}

fn knob_of(bytes: &[u8], path: &Path) -> Result<Knob> {
    Knob::from_bytes(bytes).map_err(|error| Error::Format {
        path: path.to_owned(),
        what: format!("{error}; give a model file of readahead (`spec/knob.md`)"),
    })
}

/// Reads a model file of any schema.
pub(crate) fn read_knob(path: &Path) -> Result<Knob> {
    let failed = |source| Error::File { path: path.to_owned(), doing: "read", source };
    let bytes = linnet_files::read(path, BYTES_MAX).map_err(failed)?;
    knob_of(&bytes, path)
}

impl Model {
    /// Reads a model file.
    pub fn read(path: &Path) -> Result<Model> {
        Model::of(read_knob(path)?, path)
    }

    /// A model from a file's bytes. `path` is for errors.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Model> {
        Model::of(knob_of(bytes, path)?, path)
    }

    /// A model that is in memory. Refused where it does not belong to our features or our ladder.
    pub fn of(knob: Knob, path: &Path) -> Result<Model> {
        let refuse = |what: String| Err(Error::Format { path: PathBuf::from(path), what });
        let make = "give one that was made for it";
        if knob.schema != SCHEMA_READAHEAD1 {
            let schema = knob.schema;
            return refuse(format!(
                "schema is {schema}; a model of readahead has {SCHEMA_READAHEAD1} (readahead-1): {make}"
            ));
        }
        let inputs = knob.normaliser.inputs();
        if inputs != NAMES.len() {
            return refuse(format!("inputs is {inputs}; the features of readahead-1 are {}: {make}", NAMES.len()));
        }
        if knob.unit != Unit::Kib {
            return refuse(format!("unit is {:?}; readahead is set in KiB: {make}", knob.unit));
        }
        if let Some((class, kib)) = knob.values.iter().enumerate().find(|(_, kib)| !LADDER_KIB.contains(kib)) {
            return refuse(format!("value {class} is {kib} KiB; the values are {LADDER_KIB:?}: {make}"));
        }
        Ok(Model { knob, rule: Rule::default() })
    }

    /// What was read.
    pub fn knob(&self) -> &Knob {
        &self.knob
    }
}

impl Decider for Model {
    fn name(&self) -> &str {
        "model"
    }

    fn decide(&self, features: &Features) -> Option<Verdict> {
        if features.accesses == 0 {
            return None;
        }
        let instead = |reason: String| {
            let rule = self.rule.decide(features)?;
            Some(Verdict { why: format!("{reason}, the rule says {}", rule.why), ..rule })
        };
        let (kib, sure) = match self.knob.decide(&features.row()) {
            Ok((_, kib, sure)) => (kib, sure),
            Err(error) => return instead(format!("the model fails ({error})")),
        };
        if sure < self.knob.confidence {
            return instead(format!("the model is unsure ({sure:.2} for {kib} KiB)"));
        }
        let (class, kib, confidence) = self.rule.of_model(features, kib, sure)?;
        let Features { run_pages, accesses, .. } = *features;
        let why = format!(
            "model, {sure:.2} sure: {}: {run_pages:.1} pages between jumps, {accesses} demands, {:.0} % of the pages \
             read were used",
            class.name(),
            100.0 * features.used_share,
        );
        Some(Verdict { class, kib, confidence, why })
    }
}

#[cfg(test)]
mod tests {
    use linnet_core::{Activation, DecisionTree, FloatLayer, Moments, Normaliser, SmallNetwork, TreeNode};

    use super::*;
    use crate::observe::Counts;
    use crate::rule::Class;

    /// Kept as a file, so that a reader of today's files is held to them.
    const GOLDEN: &[u8] = include_bytes!("../tests/readahead-1.linnet");
    const RUN: usize = 2;

    fn moments() -> Normaliser {
        let moments = vec![Moments { mean: 0.5, variance: 0.0625 }; NAMES.len()];
        Normaliser::from_moments(moments, 1000, 0).expect("a normaliser")
    }

    /// Long runs speak for 512 KiB, short ones for 16: sums of +-k * (log2(run) / 8 - 0.5) / 0.25.
    fn network(slope: f32) -> SmallNetwork {
        let mut weights = vec![0.0; 2 * NAMES.len()];
        weights[RUN] = -slope;
        weights[NAMES.len() + RUN] = slope;
        let layer = FloatLayer {
            outputs: 2,
            inputs: NAMES.len(),
            activation: Activation::Linear,
            weights,
            biases: vec![0.0, 0.0],
        };
        SmallNetwork::from_layers(&[layer]).expect("a network")
    }

    fn tree() -> DecisionTree {
        let nodes = vec![TreeNode::split(RUN as u16, 0.5, 2), TreeNode::leaf(0, 990_000), TreeNode::leaf(1, 980_000)];
        DecisionTree::from_nodes(nodes, NAMES.len(), 2).expect("a tree")
    }

    fn knob() -> Knob {
        Knob {
            schema: SCHEMA_READAHEAD1,
            unit: Unit::Kib,
            values: vec![8, 512],
            normaliser: moments(),
            network: Some(network(1.0)),
            tree: Some(tree()),
            confidence: 0.7,
            accuracy: 0.95,
            rows: 1000,
            seed: 1,
        }
    }

    fn decide(knob: Knob, counts: Counts) -> Verdict {
        let model = Model::of(knob, Path::new("m.linnet")).expect("a model");
        model.decide(&Features::of(&counts, true)).expect("a verdict")
    }

    fn random(accesses: u64) -> Counts {
        Counts { accesses, pages: accesses, jumps: accesses, added: 32 * accesses, ..Counts::default() }
    }

    fn runs(pages: u64) -> Counts {
        Counts { accesses: 400, pages: 400 * pages, jumps: 400, added: 400 * pages, ..Counts::default() }
    }

    #[test]
    fn the_golden_file_is_what_the_core_writes() {
        let written = knob().to_bytes().expect("a file");
        if std::env::var_os("LINNET_WRITE_GOLDEN").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readahead-1.linnet");
            std::fs::write(path, &written).expect("the golden file");
        }
        assert_eq!(written, GOLDEN, "with LINNET_WRITE_GOLDEN=1 the test writes the file");
        let read = Model::from_bytes(GOLDEN, Path::new("m.linnet")).expect("a model");
        assert_eq!(*read.knob(), knob());
    }

    #[test]
    fn the_model_decides_where_it_is_sure() {
        let verdict = decide(knob(), random(1000));
        assert_eq!((verdict.class, verdict.kib), (Class::Random, Some(8)));
        assert!(verdict.why.starts_with("model, 0.98 sure: random"), "{}", verdict.why);
        let verdict = decide(knob(), runs(4096));
        assert_eq!((verdict.class, verdict.kib), (Class::Sequential, Some(512)), "the rule gives the device's own");
        let backwards = Counts { reverse: 300, forward: 10, ..runs(4096) };
        assert_eq!(decide(knob(), backwards).class, Class::Reverse);
        let alone = Knob { network: None, ..knob() };
        assert_eq!(decide(alone, runs(4096)).kib, Some(512), "a tree decides without a network");
    }

    #[test]
    fn below_the_floor_the_rule_answers() {
        // Runs of 16 pages lie in the middle: both classes have one half.
        let verdict = decide(knob(), runs(16));
        assert_eq!((verdict.class, verdict.kib), (Class::Runs, Some(32)), "the rule: twice the run");
        assert!(verdict.why.starts_with("the model is unsure (0.50 for 8 KiB), the rule says runs"), "{}", verdict.why);
        let bold = Knob { confidence: 0.4, ..knob() };
        assert_eq!(decide(bold, runs(16)).kib, Some(8));
    }

    #[test]
    fn a_network_that_overflows_leaves_it_to_the_rule() {
        let verdict = decide(Knob { network: Some(network(f32::MAX)), ..knob() }, random(1000));
        assert_eq!(verdict.kib, Some(8));
        assert!(verdict.why.starts_with("the model fails"), "{}", verdict.why);
    }

    #[test]
    fn few_observations_are_not_trusted_however_sure_the_model_is() {
        assert!(decide(knob(), random(1)).confidence < 0.3);
        assert!((0.6..0.7).contains(&decide(knob(), random(5)).confidence));
        assert!(decide(knob(), random(1000)).confidence > 0.9);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_file_and_field() {
        let refused = |knob: Knob| Model::of(knob, Path::new("m.linnet")).expect_err("refused").to_string();
        let text = refused(Knob { schema: linnet_core::SCHEMA_PRIVATE, ..knob() });
        assert!(text.starts_with("m.linnet: schema is 32768; a model of readahead has 3"), "{text}");
        let text = refused(Knob { normaliser: Normaliser::new(5, 0).expect("a normaliser"), ..knob() });
        assert!(text.starts_with("m.linnet: inputs is 5; the features of readahead-1 are 8"), "{text}");
        let text = refused(Knob { unit: Unit::Bytes, ..knob() });
        assert!(text.starts_with("m.linnet: unit is Bytes"), "{text}");
        let text = refused(Knob { values: vec![8, 100], ..knob() });
        assert!(text.starts_with("m.linnet: value 1 is 100 KiB; the values are [8, 16,"), "{text}");
        let mut damaged = GOLDEN.to_vec();
        damaged[100] ^= 1;
        let text = Model::from_bytes(&damaged, Path::new("m.linnet")).expect_err("refused").to_string();
        assert!(text.starts_with("m.linnet: model file, byte") && text.contains("checksum"), "{text}");
        let text = Model::read(Path::new("/nonexistent/m.linnet")).expect_err("refused").to_string();
        assert!(text.starts_with("/nonexistent/m.linnet: cannot read"), "{text}");
        let text = Model::read(Path::new("/dev/zero")).expect_err("refused").to_string();
        assert!(text.starts_with("/dev/zero: cannot read") && text.contains("limit for files"), "{text}");
    }
}
