// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saves a device to a file: the contents of its flash, so that a preconditioned device can be loaded again.
//!
//! | bytes | what (little-endian) |
//! |---|---|
//! | 8 | `LINNETSD` |
//! | 4 | version, 1 |
//! | 4 | length of the parameters |
//! | 8 | seed |
//! | 8 | number of words |
//! | ... | parameters, TOML |
//! | 4 each | words: victims chosen (2), number of free superblocks, three frontiers (superblock, next page, end), free superblocks in order, states, erases, split pages, map from logical to physical pages |
//! | 4 | CRC-32 (IEEE) of all before |

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::machine::Machine;
use super::params::Params;
use super::ssd::Ssd;
use crate::error::Error;
use crate::file::write_whole;

const MAGIC: &[u8; 8] = b"LINNETSD";
const VERSION: u32 = 1;
const HEAD: usize = 32;

/// Longest snapshot: 1 TiB modelled with every page written has about 2 GiB.
const FILE_BYTES_MAX: u64 = 4 << 30;

impl Ssd {
    /// Writes the contents of the device's flash, with its parameters and seed. Pages in its buffer are saved as if
    /// flushed. The file is written atomically.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let mut flushed = self.clone();
        let now = flushed.machine.get_mut().stats.now_ns;
        flushed.flush(now);
        let machine = flushed.machine.get_mut();
        let params = machine.params.to_toml();
        let words = machine.ftl.to_words();
        let mut bytes = Vec::with_capacity(HEAD + params.len() + 4 * words.len() + 4);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((params.len() as u32).to_le_bytes());
        bytes.extend(self.seed.to_le_bytes());
        bytes.extend((words.len() as u64).to_le_bytes());
        bytes.extend(params.as_bytes());
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        write_whole(path, &bytes)
    }

    /// Reads a device that [`Ssd::save`] wrote: idle at time 0, statistics zero, as after [`Ssd::precondition`].
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read, is damaged, or is of another version; [`Error::Text`] and
    /// [`Error::Setting`] for its parameters.
    pub fn load(path: &Path) -> Result<Ssd, Error> {
        let failed = |reason: String| Error::File { file: path.display().to_string(), reason };
        let system = |source: std::io::Error| failed(source.to_string());
        let mut file = File::open(path).map_err(system)?;
        let mut bytes = Vec::new();
        // What is no snapshot is refused by its first bytes, before gigabytes of it are read.
        file.by_ref().take(HEAD as u64).read_to_end(&mut bytes).map_err(system)?;
        if bytes.starts_with(MAGIC) {
            linnet_files::read_on(&mut file, &mut bytes, FILE_BYTES_MAX).map_err(system)?;
        }
        if bytes.len() < HEAD + 4 || &bytes[..8] != MAGIC {
            return Err(failed("not a snapshot of a device: it does not start with LINNETSD".to_owned()));
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(8) != VERSION {
            return Err(failed(format!("snapshot of version {}; this program reads version {VERSION}", word(8))));
        }
        let body = &bytes[..bytes.len() - 4];
        if crc32fast::hash(body) != word(bytes.len() - 4) {
            return Err(failed("damaged: its checksum does not agree; make the snapshot again".to_owned()));
        }
        let params_end = HEAD as u64 + u64::from(word(12));
        let end = long(24).checked_mul(4).and_then(|length| length.checked_add(params_end));
        if end != Some(body.len() as u64) {
            return Err(failed("its lengths do not add up to its size".to_owned()));
        }
        let text = std::str::from_utf8(&body[HEAD..params_end as usize])
            .map_err(|source| failed(format!("parameters: {source}")))?;
        let params = Params::from_toml(text)?;
        let mut machine = Machine::new(&params, long(16));
        let words: Vec<u32> = body[params_end as usize..]
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        let geometry = machine.geometry.clone();
        if !machine.ftl.set_words(&geometry, &words) {
            return Err(failed("its maps contradict its parameters or each other".to_owned()));
        }
        Ok(Ssd::from_machine(machine, long(16)))
    }
}

#[cfg(test)]
mod tests {
    use linnet_types::{LatencyModel, Op, Request};

    use super::*;

    fn used() -> Ssd {
        let params = Params { partial_page_mapping: true, ..Params::preset("sata").unwrap() };
        let mut ssd = Ssd::new(&params, 3).unwrap();
        ssd.precondition();
        ssd
    }

    #[test]
    fn a_loaded_device_answers_as_the_one_that_was_saved() {
        let path = std::env::temp_dir().join(format!("linnet-ssd-snapshot-{}", std::process::id()));
        let mut made = used();
        made.save(&path).unwrap();
        let mut loaded = Ssd::load(&path).unwrap();
        assert_eq!(loaded.check(), Ok(()));
        for n in 0..3_000u64 {
            let op = if n % 3 == 0 { Op::Read } else { Op::Write };
            let request = Request::new(op, n * 7_654_321, 6_000);
            assert_eq!(made.submit(n * 200_000, &request), loaded.submit(n * 200_000, &request));
        }
        assert_eq!(made.stats(), loaded.stats());
        // The buffer of the device is not empty; it is saved as if it had been flushed.
        loaded.save(&path).unwrap();
        assert_eq!(Ssd::load(&path).unwrap().check(), Ok(()));
        let mut bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();

        let refusal = |bytes: &[u8]| {
            let bad = path.with_extension(format!("bad{}", bytes.len()));
            std::fs::write(&bad, bytes).unwrap();
            let error = Ssd::load(&bad).unwrap_err().to_string();
            std::fs::remove_file(&bad).unwrap();
            error
        };
        assert!(refusal(&bytes[..bytes.len() - 9]).contains("checksum"));
        assert!(refusal(b"LINNET").contains("not a snapshot"));
        assert!(Ssd::load(Path::new("/dev/zero")).unwrap_err().to_string().contains("not a snapshot"));
        let last = bytes.len() - 5;
        // A map entry beyond the flash, with a matching checksum.
        bytes[last] = 0x7f;
        let sum = crc32fast::hash(&bytes[..last + 1]).to_le_bytes();
        bytes[last + 1..].copy_from_slice(&sum);
        assert!(refusal(&bytes).contains("contradict"));
        bytes[8] = 9;
        assert!(refusal(&bytes).contains("version 9"));
        assert!(Ssd::load(&path).unwrap_err().to_string().contains("snapshot"));
    }
}
