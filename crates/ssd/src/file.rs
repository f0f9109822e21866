// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameter files: TOML, one key per setting, with the unit in its name.
//!
//! A file starts from a preset (`preset = "consumer-deep"`) and changes keys, or gives all keys. With `model =
//! "queued"` it is a file of the queued model, where missing keys have defaults. `fitted_to` names the drive whose
//! measurements the file was fitted to; it changes nothing in the model.

use std::path::Path;

use toml::{Table, Value};

use crate::error::Error;
use crate::presets::preset_text;
use crate::queued::QueuedParams;
use crate::timeline::params::Params;

/// A parameter file: a device of one of the two models.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceParams {
    /// [`crate::Ssd`]; `model = "timelines"`, which is the default if the file has no such key.
    Timelines(Params),
    /// [`crate::queued::QueuedSsd`]; `model = "queued"`.
    Queued(QueuedParams),
}

fn refused(reason: impl ToString) -> Error {
    Error::Text { file: String::new(), reason: reason.to_string() }
}

fn taken(table: &mut Table, key: &str) -> Result<Option<String>, Error> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(refused(format!("{key} = {other}: must be a string"))),
    }
}

fn parsed(text: &str) -> Result<Table, Error> {
    text.parse::<Table>().map_err(refused)
}

/// Fills missing keys from the preset, then reads the table. Accepts integers for shares.
fn timelines(mut table: Table) -> Result<Params, Error> {
    if let Some(name) = taken(&mut table, "preset")? {
        let mut all = Table::try_from(Params::preset(&name)?).map_err(refused)?;
        all.extend(table);
        table = all;
    }
    let params: Params = table.try_into().map_err(refused)?;
    params.validate()?;
    Ok(params)
}

fn queued(table: Table) -> Result<QueuedParams, Error> {
    let params: QueuedParams = table.try_into().map_err(refused)?;
    params.validate()?;
    Ok(params)
}

impl DeviceParams {
    /// Finds a device by the name that a user gives: a preset of either engine, or a parameter file, whose name ends in
    /// `.toml`.
    ///
    /// # Errors
    /// [`Error::UnknownPreset`], and those of [`DeviceParams::read`].
    pub fn find(name: &str) -> Result<DeviceParams, Error> {
        if name.ends_with(".toml") {
            return DeviceParams::read(Path::new(name));
        }
        DeviceParams::from_toml(preset_text(name)?)
    }

    /// Reads the text of a parameter file.
    ///
    /// # Errors
    /// [`Error::Text`] for text that is not TOML and for unknown or missing keys, [`Error::Setting`] for impossible
    /// values.
    pub fn from_toml(text: &str) -> Result<DeviceParams, Error> {
        let mut table = parsed(text)?;
        taken(&mut table, FITTED_TO)?;
        match taken(&mut table, "model")?.as_deref() {
            None | Some("timelines") => timelines(table).map(DeviceParams::Timelines),
            Some("queued") => queued(table).map(DeviceParams::Queued),
            Some(other) => Err(refused(format!("model = \"{other}\": must be timelines or queued"))),
        }
    }

    /// Reads a parameter file.
    ///
    /// # Errors
    /// Those of [`DeviceParams::from_toml`], and [`Error::File`]; both name the file.
    pub fn read(path: &Path) -> Result<DeviceParams, Error> {
        let file = path.display().to_string();
        DeviceParams::from_toml(&text_of(path)?).map_err(|error| match error {
            Error::Text { reason, .. } => Error::Text { file, reason },
            other => Error::Text { file, reason: other.to_string() },
        })
    }

    /// The drive whose measurements a preset or a parameter file (by name, as in [`DeviceParams::find`]) was fitted to;
    /// `None` for a guess. A file that starts from a preset and changes keys is a guess, unless it says otherwise.
    ///
    /// # Errors
    /// Those of [`DeviceParams::find`].
    pub fn fitted_to(name: &str) -> Result<Option<String>, Error> {
        DeviceParams::find(name)?;
        let text = if name.ends_with(".toml") { text_of(Path::new(name))? } else { preset_text(name)?.to_owned() };
        taken(&mut parsed(&text)?, FITTED_TO)
    }

    /// The text of a parameter file; reading it gives the same parameters.
    pub fn to_toml(&self) -> String {
        match self {
            DeviceParams::Timelines(params) => params.to_toml(),
            DeviceParams::Queued(params) => params.to_toml(),
        }
    }

    /// Writes a parameter file, atomically.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        write_whole(path, self.to_toml().as_bytes())
    }
}

impl Params {
    /// Reads the text of a parameter file of this model.
    ///
    /// # Errors
    /// Those of [`DeviceParams::from_toml`].
    pub fn from_toml(text: &str) -> Result<Params, Error> {
        match DeviceParams::from_toml(text)? {
            DeviceParams::Timelines(params) => Ok(params),
            DeviceParams::Queued(_) => Err(refused("model = \"queued\": the model of timelines is wanted here")),
        }
    }

    /// The settings as TOML, without the keys of mechanisms that are off.
    pub fn to_toml(&self) -> String {
        format!("model = \"timelines\"\n{}", toml::to_string(self).expect("settings are plain values"))
    }
}

impl QueuedParams {
    /// Reads the text of a parameter file of this model.
    ///
    /// # Errors
    /// Those of [`DeviceParams::from_toml`].
    pub fn from_toml(text: &str) -> Result<QueuedParams, Error> {
        match DeviceParams::from_toml(text)? {
            DeviceParams::Queued(params) => Ok(params),
            DeviceParams::Timelines(_) => Err(refused("model = \"queued\" is missing")),
        }
    }

    /// The settings as TOML, all keys.
    pub fn to_toml(&self) -> String {
        format!("model = \"queued\"\n{}", toml::to_string(self).expect("settings are plain values"))
    }
}

/// Longest parameter file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Key of a parameter file: the drive whose measurements it was fitted to.
const FITTED_TO: &str = "fitted_to";

fn text_of(path: &Path) -> Result<String, Error> {
    let failed = |reason: String| Error::File { file: path.display().to_string(), reason };
    let bytes = linnet_files::read(path, FILE_BYTES_MAX).map_err(|source| failed(source.to_string()))?;
    String::from_utf8(bytes).map_err(|_| failed("no UTF-8 text".to_owned()))
}

/// Writes a file whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    linnet_files::write(path, bytes, linnet_files::Links::Follow)
        .map_err(|source| Error::File { file: path.display().to_string(), reason: source.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{PRESETS, QUEUED_PRESETS};

    #[test]
    fn drives_are_found_by_name_and_by_file() {
        assert_eq!(DeviceParams::find("sata"), Params::preset("sata").map(DeviceParams::Timelines));
        for name in QUEUED_PRESETS {
            let params = QueuedParams::preset(name).unwrap();
            assert_eq!(DeviceParams::find(name), Ok(DeviceParams::Queued(params.clone())));
            let file = std::env::temp_dir().join(format!("linnet-find-{}-{name}.toml", std::process::id()));
            DeviceParams::Queued(params.clone()).write(&file).unwrap();
            assert_eq!(DeviceParams::find(file.to_str().unwrap()), Ok(DeviceParams::Queued(params)));
            std::fs::remove_file(file).unwrap();
        }
        let text = DeviceParams::find("nvme").unwrap_err().to_string();
        assert!(text.contains("sata") && text.contains("consumer-deep-queued"), "{text}");
        assert!(matches!(DeviceParams::find("/absent.toml"), Err(Error::File { .. } | Error::Text { .. })));
    }

    #[test]
    fn what_is_written_reads_back() {
        for name in PRESETS {
            let params = Params::preset(name).unwrap();
            assert_eq!(Params::from_toml(&params.to_toml()).unwrap(), params);
            assert_eq!(Params::from_toml(&format!("preset = \"{name}\"")).unwrap(), params);
        }
        let queued = QueuedParams { channels: 3, erase_suspend_above_ns: Some(5), ..QueuedParams::default() };
        assert_eq!(QueuedParams::from_toml(&queued.to_toml()).unwrap(), queued);
    }

    #[test]
    fn a_preset_can_be_changed_key_by_key() {
        let params = Params::from_toml("preset = \"sata\"\nread_ns = 50_000\nread_priority = \"suspend\"").unwrap();
        let plain = Params::preset("sata").unwrap();
        assert_eq!(params, Params { read_ns: 50_000, read_priority: crate::ReadPriority::Suspend, ..plain });
    }

    #[test]
    fn a_file_says_what_it_was_fitted_to() {
        let fitted = |name: &str| DeviceParams::fitted_to(name).unwrap();
        assert_eq!(fitted("cm7-r").as_deref(), Some("Kioxia CM7-R"));
        assert_eq!((fitted("sata"), fitted("consumer-deep-queued")), (None, None));
        let path = std::env::temp_dir().join(format!("linnet-fitted-{}.toml", std::process::id()));
        for (text, expected) in [
            ("preset = \"cm7-r\"\nread_ns = 50_000", None),
            ("fitted_to = \"one drive\"\npreset = \"sata\"", Some("one drive")),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(fitted(path.to_str().unwrap()).as_deref(), expected, "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(DeviceParams::fitted_to("nvme").is_err());
        assert!(DeviceParams::from_toml("preset = \"sata\"\nfitted_to = 1").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refusal = |text: &str| DeviceParams::from_toml(text).unwrap_err().to_string();
        assert!(refusal("preset = \"sata\"\nread_us = 50").contains("read_us"));
        assert!(refusal("preset = \"sata\"\nread_ns = 0").contains("read_ns"));
        assert!(refusal("preset = \"sata\"\nread_ns = \"fast\"").contains("read_ns"));
        assert!(refusal("channels = 4").contains("missing field"));
        assert!(refusal("model = \"other\"").contains("timelines or queued"));
        assert!(refusal("model = \"queued\"\nplacement = \"CWD\"").contains("placement"));
        assert!(refusal("preset = sata").contains("line 1"));
        assert!(DeviceParams::read(Path::new("/nonexistent.toml")).unwrap_err().to_string().contains("nonexistent"));
    }

    #[test]
    fn a_file_appears_whole() {
        let path = std::env::temp_dir().join(format!("linnet-ssd-params-{}.toml", std::process::id()));
        let params = DeviceParams::Queued(QueuedParams::default());
        params.write(&path).unwrap();
        assert_eq!(DeviceParams::read(&path).unwrap(), params);
        assert!(params.write(&path.join("below-a-file.toml")).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
