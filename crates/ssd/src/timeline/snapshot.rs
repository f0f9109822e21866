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

use super::ftl::Ftl;
use super::geometry::Geometry;
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
        // The maps take as much memory as the parameters ask for, so their words come first.
        let free =
            body.get(params_end as usize + 8..params_end as usize + 12).map_or(0, |_| word(params_end as usize + 8));
        let needed = Ftl::words(&Geometry::new(&params), params.partial_page_mapping, free);
        if long(24) != needed {
            return Err(failed(format!("{} words, and its parameters need {needed}", long(24))));
        }
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

    /// The error of a file with these contents; `name` is that of the test.
    fn refusal(name: &str, bytes: &[u8]) -> String {
        let path = std::env::temp_dir().join(format!("linnet-ssd-{name}-{}-{}", std::process::id(), bytes.len()));
        std::fs::write(&path, bytes).unwrap();
        let found = Ssd::load(&path);
        std::fs::remove_file(&path).unwrap();
        found.map(|_| ()).unwrap_err().to_string()
    }

    /// The bytes of a file with this body, whose checksum agrees.
    fn summed(body: &[u8]) -> Vec<u8> {
        [body, &crc32fast::hash(body).to_le_bytes()].concat()
    }

    /// A head and parameters with this many words after them.
    fn head(params: &str, words: u64) -> Vec<u8> {
        let fixed = [&MAGIC[..], &VERSION.to_le_bytes(), &(params.len() as u32).to_le_bytes(), &[0; 8]].concat();
        [&fixed, &words.to_le_bytes()[..], params.as_bytes()].concat()
    }

    #[test]
    fn a_short_file_gets_no_memory_for_a_large_drive() {
        let large = Params { blocks_per_plane: 16_384, ..Params::preset("sata").unwrap() };
        for words in [0, 12] {
            let body = [head(&large.to_toml(), words), vec![0; 4 * words as usize]].concat();
            let text = refusal("short", &summed(&body));
            assert!(text.contains(&format!(" {words} words, and its parameters need")), "{text}");
        }
    }

    #[test]
    fn a_superblock_has_one_use() {
        let mut ssd = used();
        let machine = ssd.machine.get_mut();
        let (geometry, words) = (machine.geometry.clone(), machine.ftl.to_words());
        let params = machine.params.to_toml();
        let loads = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let text = refusal("use", &summed(&[head(&params, words.len() as u64), bytes].concat()));
            assert!(text.contains("contradict"), "{text}");
        };
        let (host, gc, victim, free) = (3, 6, 9, 12);
        let changed = |at: usize, value: u32| {
            let mut changed = words.clone();
            changed[at] = value;
            loads(&changed);
        };
        // Free twice; two frontiers in one superblock; written and collected; half a unit written; a page written again.
        changed(free, words[free + 1]);
        let mut both = words.clone();
        both.copy_within(host..host + 3, gc);
        loads(&both);
        both = words.clone();
        both.copy_within(host..host + 3, victim);
        loads(&both);
        changed(host + 1, words[host + 1] + 1);
        assert!(words[host + 1] > words[host] * geometry.superblock_pages, "the frontier has written pages");
        changed(host + 1, words[host] * geometry.superblock_pages);
        // A closed superblock that is said to be open.
        let states = free + words[2] as usize;
        let closed = (states..).find(|&at| words[at] == 2).unwrap();
        changed(closed, 1);
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

        let refusal = |bytes: &[u8]| refusal("bad", bytes);
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
