// SPDX-License-Identifier: MIT OR Apache-2.0
//! The presets by name. They are parameter files in `presets/`, which state the source of each value.
//!
//! The first three of the timeline engine are layouts without calibration to a product. `linnet ssd calibrate` fitted
//! `970-evo` and `600p` to measurements of resctl-bench's iocost benchmarks on one Samsung 970 EVO 500 GB and one Intel
//! SSDPEKKA256G7 (600p class), and `pe8110`, `d7-p5520`, `cm7-r` and `7450-pro` to latencies of one SK Hynix PE8110,
//! Solidigm D7-P5520, Kioxia CM7-R and Micron 7450 PRO that SSD-iq recorded. `docs/design/calibration.md` and
//! `docs/design/calibration-shared.md` say which figures the fits reproduce and which they do not.

use crate::error::Error;
use crate::queued::QueuedParams;
use crate::timeline::params::Params;

/// Names that [`Params::preset`] knows.
pub const PRESETS: &[&str] =
    &["consumer-deep", "enterprise-wide", "sata", "970-evo", "600p", "pe8110", "d7-p5520", "cm7-r", "7450-pro"];

/// Names of presets of the queued model ([`crate::DeviceParams::find`]): the same layouts as the presets without
/// `-queued`.
pub const QUEUED_PRESETS: &[&str] = &["consumer-deep-queued", "enterprise-wide-queued"];

/// The files of [`PRESETS`].
const TIMELINES: [&str; 9] = [
    include_str!("../presets/consumer-deep.toml"),
    include_str!("../presets/enterprise-wide.toml"),
    include_str!("../presets/sata.toml"),
    include_str!("../presets/970-evo.toml"),
    include_str!("../presets/600p.toml"),
    include_str!("../presets/pe8110.toml"),
    include_str!("../presets/d7-p5520.toml"),
    include_str!("../presets/cm7-r.toml"),
    include_str!("../presets/7450-pro.toml"),
];

/// The files of [`QUEUED_PRESETS`].
const QUEUED: [&str; 2] =
    [include_str!("../presets/consumer-deep-queued.toml"), include_str!("../presets/enterprise-wide-queued.toml")];

fn file<'a>(name: &str, names: &[&str], files: &[&'a str]) -> Result<&'a str, Error> {
    let found = names.iter().zip(files).find(|(known, _)| **known == name);
    found.map(|(_, text)| *text).ok_or_else(|| Error::UnknownPreset { name: name.to_owned(), known: names.join(", ") })
}

/// The parameter file of a preset of either model.
///
/// # Errors
/// [`Error::UnknownPreset`] lists the names of both.
pub(crate) fn preset_text(name: &str) -> Result<&'static str, Error> {
    file(name, &[PRESETS, QUEUED_PRESETS].concat(), &[&TIMELINES[..], &QUEUED].concat())
}

impl Params {
    /// The preset of this name (one of [`PRESETS`]).
    ///
    /// # Errors
    /// [`Error::UnknownPreset`] lists the names that exist.
    pub fn preset(name: &str) -> Result<Params, Error> {
        Params::from_toml(file(name, PRESETS, &TIMELINES)?)
    }
}

impl QueuedParams {
    /// The preset of this name (one of [`QUEUED_PRESETS`]).
    ///
    /// # Errors
    /// [`Error::UnknownPreset`] lists the names that exist.
    pub fn preset(name: &str) -> Result<QueuedParams, Error> {
        QueuedParams::from_toml(file(name, QUEUED_PRESETS, &QUEUED)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the presets that are guessed, so no calibration can restore them; in the order of [`Params`]. Results
    /// that were published with the presets depend on them.
    const GUESSED: [(&str, &str); 3] = [
        (
            "consumer-deep",
            "4 16 2 16384 12 340 0.1 60000 1300000 4000000 20 20000 400 3200 false 6000 3000 4000 \
             16777216 500000000 0.5 none 0.002 6 4.0 2 20 2048 2 0.9 0.0 false 0 false false 0 0",
        ),
        (
            "enterprise-wide",
            "32 4 4 16384 8 256 0.28 55000 900000 3500000 32 20000 800 3200 false 12000 5000 6000 \
             134217728 400000000 0.5 over-queued 0.001 6 4.0 2 32 32768 2 0.9 0.0 false 0 false false 0 0",
        ),
        (
            "sata",
            "8 4 2 16384 32 256 0.1 45000 450000 3500000 8 20000 400 560 true 20000 15000 4000 \
             33554432 500000000 0.5 none 0.002 6 4.0 4 16 4096 2 0.9 0.0 false 0 false false 0 0",
        ),
    ];

    #[test]
    fn guessed_presets_keep_their_values() {
        for (name, values) in GUESSED {
            let text = Params::preset(name).unwrap().to_toml();
            let found: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(" = ").nth(1)).collect();
            assert_eq!(found.join(" ").replace('"', ""), values, "{name}");
        }
    }

    #[test]
    fn every_preset_is_sound_and_an_unknown_one_lists_them() {
        PRESETS.iter().for_each(|name| Params::preset(name).unwrap().validate().unwrap());
        QUEUED_PRESETS.iter().for_each(|name| QueuedParams::preset(name).unwrap().validate().unwrap());
        for name in PRESETS {
            assert!(Params::preset("x").unwrap_err().to_string().contains(name));
        }
    }
}
