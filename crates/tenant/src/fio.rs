// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load that a fio job file declares, as a profile for each job.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Error;
use crate::profile::{DEPTH, DepthFrom, Group, Profile, RANDOM};

/// Longest job file.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of options in all jobs, those of `[global]` counted for each.
const OPTION_BYTES_MAX: usize = 16 << 20;
/// Largest size of an I/O, alignment of offsets, or distance between them.
const SIZE_MAX: f64 = (1u64 << 40) as f64;
/// fio's default size of an I/O.
const BLOCK: u64 = 4096;
const PAGE: u64 = 4096;

/// One job: its options, those of `[global]` included.
struct Job<'a> {
    path: &'a Path,
    name: String,
    options: BTreeMap<String, String>,
}

/// The profiles of the jobs of a file, by name, in its order. The load of a job is declared if it has a rate:
/// `rate_iops` or `rate`; its deviation if it pauses: `thinktime` with `thinktime_iotime`. Clones of a job (`numjobs`)
/// are one profile.
///
/// # Errors
/// [`Error::Job`] with section and option: a job without a rate of what it does, or an option whose effect on the load
/// is not known; a file beyond its limits.
pub fn declared(path: &Path, text: &str) -> Result<Vec<(String, Profile)>, Error> {
    if text.len() > FILE_BYTES_MAX {
        return Err(refuse(path, "the file".into(), format!("is longer than {FILE_BYTES_MAX} bytes")));
    }
    let jobs = sections(path, text)?;
    if jobs.is_empty() {
        return Err(refuse(path, "the file".into(), "has no job; a job is a section such as [db]".into()));
    }
    jobs.iter().map(|job| Ok((job.name.clone(), job.profile()?))).collect()
}

fn refuse(path: &Path, place: String, problem: String) -> Error {
    Error::Job { path: path.to_path_buf(), place, problem }
}

fn sections<'a>(path: &'a Path, text: &str) -> Result<Vec<Job<'a>>, Error> {
    let mut global = BTreeMap::new();
    let (mut global_bytes, mut bytes) = (0, 0);
    let mut jobs: Vec<Job<'a>> = Vec::new();
    let mut in_global = false;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        let place = || format!("line {}", n + 1);
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').filter(|name| !name.is_empty()) else {
                return Err(refuse(path, place(), format!("`{line}` is not a section, such as [db]")));
            };
            in_global = name == "global";
            if !in_global {
                bytes += global_bytes;
                if bytes > OPTION_BYTES_MAX {
                    let problem = format!("the jobs before it have {OPTION_BYTES_MAX} bytes of [global] options");
                    return Err(refuse(path, place(), problem));
                }
                jobs.push(Job { path, name: name.to_owned(), options: global.clone() });
            }
            continue;
        }
        let is_end = |c: char| c == '=' || c.is_whitespace();
        if line.strip_prefix("include").is_some_and(|file| file.starts_with(is_end)) {
            return Err(refuse(path, place(), format!("`{line}` is not supported; put the options of that file here")));
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let options = match jobs.last_mut() {
            _ if in_global => {
                // An entry's own memory counts, too.
                global_bytes += line.len() + 64;
                &mut global
            }
            Some(job) => &mut job.options,
            None => return Err(refuse(path, place(), format!("`{line}` stands before the first section"))),
        };
        options.insert(alias(key.trim()).to_owned(), value.trim().to_owned());
    }
    Ok(jobs)
}

/// fio's other names of an option.
fn alias(key: &str) -> &str {
    match key {
        "blocksize" => "bs",
        "blocksize_range" => "bsrange",
        "blocksize_unaligned" => "bs_unaligned",
        "readwrite" => "rw",
        "ba" => "blockalign",
        "startdelay_ms" => "startdelay",
        other => other,
    }
}

impl Job<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    fn refuse(&self, key: &str, problem: impl Into<String>) -> Error {
        refuse(self.path, format!("[{}] {key}", self.name), problem.into())
    }

    /// Two numbers, for reads and for writes; one number counts for both.
    fn pair(&self, key: &str, default: f64, unit: Unit) -> Result<[f64; 2], Error> {
        let Some(text) = self.text(key) else { return Ok([default; 2]) };
        let mut parts = text.split(',').map(|part| {
            if part.trim().is_empty() {
                return Ok(None);
            }
            unit.parse(part.trim())
                .map(Some)
                .ok_or_else(|| self.refuse(key, format!("`{}` is not {}", part.trim(), unit.name())))
        });
        let read = parts.next().transpose()?.flatten().unwrap_or(default);
        let write = parts.next().transpose()?.map_or(read, |value| value.unwrap_or(default));
        Ok([read, write])
    }

    fn number(&self, key: &str, default: f64, unit: Unit) -> Result<f64, Error> {
        Ok(self.pair(key, default, unit)?[0])
    }

    fn profile(&self) -> Result<Profile, Error> {
        for (key, problem) in [
            ("bssplit", "is not supported; give bs, or bsrange"),
            ("zonemode", "is not supported"),
            ("read_iolog", "replays a trace; profile that trace instead"),
            ("rate_process", "is not supported"),
            ("flow", "is not supported"),
            ("bs_unaligned", "is not supported; sizes are multiples of the smallest one"),
            ("bs_is_seq_rand", "is not supported; give the sizes of reads and of writes"),
        ] {
            // An option that is set to 0 is off.
            if self.text(key).is_some_and(|value| value != "0") {
                return Err(self.refuse(key, problem));
            }
        }
        let (mix, sequential, skip) = self.kind()?;
        let clones = self.number("numjobs", 1.0, Unit::Count)?;
        if clones < 1.0 {
            return Err(self.refuse("numjobs", format!("{clones} is less than one job")));
        }
        let sizes = self.sizes()?;
        let rates = self.rates(mix, &sizes)?;
        let duty = self.duty()?;
        // fio makes up for its pauses, so that the mean is the declared rate, unless it is told not to.
        let kept = if self.number("rate_ignore_thinktime", 0.0, Unit::Count)? > 0.0 { duty } else { 1.0 };
        let random = if sequential { self.sequential_random(skip)? } else { self.percent("percentage_random", 100.0)? };
        let align = self.pair("blockalign", 0.0, Unit::Bytes)?;
        if align.iter().any(|&align| align > SIZE_MAX) {
            return Err(self.refuse("blockalign", "an alignment is at most 1 TiB"));
        }
        let mut profile = Profile { depth_from: DepthFrom::Declared, ..Profile::default() };
        for op in 0..2 {
            if rates[op] == 0.0 {
                continue;
            }
            let total: f64 = sizes[op].len() as f64;
            for (class, aligned) in [true, false].into_iter().enumerate() {
                let of_class: Vec<u64> =
                    sizes[op].iter().copied().filter(|size| size.is_multiple_of(PAGE) == aligned).collect();
                if of_class.is_empty() {
                    continue;
                }
                let rate_mean = kept * clones * rates[op] * of_class.len() as f64 / total;
                let size = of_class.iter().sum::<u64>() as f64 / of_class.len() as f64;
                let step = if sequential { skip } else { 0 };
                let unit = if align[op] > 0.0 { align[op] as u64 } else { sizes[op][0] };
                // A duty cycle: rate r/s during a share s of the time has deviation r * sqrt((1 - s) / s).
                let spread = ((1.0 - duty) / duty).sqrt();
                profile.set_group(
                    2 * op + class,
                    Group {
                        size_bytes_mean: size,
                        rate_mean,
                        rate_std: rate_mean * spread,
                        bandwidth_mean: rate_mean * size,
                        bandwidth_std: rate_mean * size * spread,
                        unaligned_ratio: unaligned(unit, step),
                    },
                );
            }
            profile.features[RANDOM + op] = random;
        }
        profile.features[DEPTH] = clones * self.number("iodepth", 1.0, Unit::Count)?;
        if profile.features.iter().any(|value| !value.is_finite()) {
            return Err(self.refuse("rate", "the load is beyond what numbers can hold"));
        }
        Ok(profile)
    }

    /// Shares of reads and writes, whether offsets are sequential, and the bytes that sequential offsets skip.
    fn kind(&self) -> Result<([f64; 2], bool, u64), Error> {
        let text = self.text("rw").unwrap_or("read");
        let (kind, after) = text.split_once(':').unwrap_or((text, ""));
        let reads = self.percent("rwmixread", 50.0)?;
        let reads = match self.text("rwmixwrite") {
            Some(_) => 1.0 - self.percent("rwmixwrite", 50.0)?,
            None => reads,
        };
        let (mix, sequential) = match kind {
            "read" => ([1.0, 0.0], true),
            "write" => ([0.0, 1.0], true),
            "randread" => ([1.0, 0.0], false),
            "randwrite" => ([0.0, 1.0], false),
            "rw" | "readwrite" => ([reads, 1.0 - reads], true),
            "randrw" => ([reads, 1.0 - reads], false),
            _ => {
                return Err(
                    self.refuse("rw", format!("`{text}` is not read, write, rw, randread, randwrite or randrw"))
                );
            }
        };
        let skip = match after {
            "" => 0.0,
            _ => Unit::Bytes
                .parse(after)
                .filter(|&skip| skip <= SIZE_MAX)
                .ok_or_else(|| self.refuse("rw", format!("`{after}` is not a size of up to 1 TiB")))?,
        };
        Ok((mix, sequential, skip as u64))
    }

    /// Share of I/Os that continue none before, of sequential offsets: all of them if they skip.
    fn sequential_random(&self, skip: u64) -> Result<f64, Error> {
        if skip > 0 { Ok(1.0) } else { self.percent("percentage_random", 0.0) }
    }

    fn percent(&self, key: &str, default: f64) -> Result<f64, Error> {
        let value = self.number(key, default, Unit::Count)?;
        if value > 100.0 {
            return Err(self.refuse(key, format!("{value} is above 100 percent")));
        }
        Ok(value / 100.0)
    }

    /// Sizes of reads and of writes that are equally likely.
    fn sizes(&self) -> Result<[Vec<u64>; 2], Error> {
        let Some(text) = self.text("bsrange") else {
            let [read, write] = self.pair("bs", BLOCK as f64, Unit::Bytes)?;
            if !(1.0..=SIZE_MAX).contains(&read) || !(1.0..=SIZE_MAX).contains(&write) {
                return Err(self.refuse("bs", "a size is at least 1 byte and at most 1 TiB"));
            }
            return Ok([vec![read as u64], vec![write as u64]]);
        };
        let bad = || self.refuse("bsrange", format!("`{text}` is not a range, such as 4k-64k"));
        let ranges: Vec<Vec<u64>> = text
            .split(',')
            .map(|part| {
                let (low, high) = part.split_once('-').ok_or_else(bad)?;
                let size = |part: &str| Unit::Bytes.parse(part.trim()).filter(|&size| size <= SIZE_MAX);
                let parse = |part: &str| size(part).map(|size| size as u64);
                let (low, high) = (parse(low).ok_or_else(bad)?, parse(high).ok_or_else(bad)?);
                if low == 0 || high < low || (high - low) / low > 65_536 {
                    return Err(bad());
                }
                // fio draws multiples of the smallest size.
                Ok((1..=high / low).map(|n| n * low).collect())
            })
            .collect::<Result<_, _>>()?;
        Ok([ranges[0].clone(), ranges.get(1).unwrap_or(&ranges[0]).clone()])
    }

    /// I/Os per second of one clone, over the whole time.
    fn rates(&self, mix: [f64; 2], sizes: &[Vec<u64>; 2]) -> Result<[f64; 2], Error> {
        let size = |op: usize| sizes[op].iter().sum::<u64>() as f64 / sizes[op].len() as f64;
        let mut limits = self.pair("rate_iops", 0.0, Unit::Count)?;
        let bytes = self.pair("rate", 0.0, Unit::Bytes)?;
        for op in 0..2 {
            // fio counts bytes: rate_iops times the smallest size.
            limits[op] *= sizes[op][0] as f64 / size(op);
            let by_bytes = bytes[op] / size(op);
            if by_bytes > 0.0 && (limits[op] == 0.0 || by_bytes < limits[op]) {
                limits[op] = by_bytes;
            }
        }
        // fio does not keep the mix: where one direction is ahead of its limit, it issues the other.
        match [0, 1].map(|op| mix[op] > 0.0 && limits[op] == 0.0) {
            [false, false] => Ok([0, 1].map(|op| if mix[op] > 0.0 { limits[op] } else { 0.0 })),
            [read, write] if (read || mix[0] == 0.0) && (write || mix[1] == 0.0) => Err(self.refuse(
                "rate_iops",
                "is missing: the job runs as fast as the drive allows, so the file declares no load; \
                 set rate_iops or rate, or profile a trace of the job",
            )),
            [read, _] => {
                let (free, limited) = if read { ("reads", "writes") } else { ("writes", "reads") };
                let key = if bytes.iter().any(|&limit| limit > 0.0) { "rate" } else { "rate_iops" };
                let problem = format!(
                    "limits {limited} only: the job does {free} as fast as the drive allows; \
                     set {key}=READS,WRITES, or profile a trace of the job"
                );
                Err(self.refuse(key, problem))
            }
        }
    }

    /// The share of the time in which the job is active.
    fn duty(&self) -> Result<f64, Error> {
        let pause = self.number("thinktime", 0.0, Unit::Microseconds)?;
        let active = self.number("thinktime_iotime", 0.0, Unit::Microseconds)?;
        if pause > 0.0 && active <= 0.0 {
            return Err(self.refuse("thinktime", "needs thinktime_iotime, the length of a burst"));
        }
        Ok(if pause > 0.0 { active / (active + pause) } else { 1.0 })
    }
}

/// Share of the offsets 0, s, 2s, ... that are not multiples of the page, where s is a unit and what is skipped after
/// it.
fn unaligned(unit: u64, skip: u64) -> f64 {
    let step = (unit + skip) % PAGE;
    if step == 0 {
        return 0.0;
    }
    let (mut a, mut b) = (PAGE, step);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    // Offsets visit all multiples of the greatest common divisor in turn; one in PAGE / divisor is aligned.
    1.0 - a as f64 / PAGE as f64
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Bytes,
    Microseconds,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Count => "a number",
            Unit::Bytes => "a number of bytes, such as 4k",
            Unit::Microseconds => "a time in microseconds",
        }
    }

    /// A number with a suffix of fio: k, m, g, t are powers of 1024 (kb_base is 1024); us, ms, s, m of time.
    fn parse(self, text: &str) -> Option<f64> {
        let text = text.to_ascii_lowercase();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..end].parse().ok()?;
        let factor = match (self, &text[end..]) {
            (_, "") => 1.0,
            (Unit::Microseconds, "us") => 1.0,
            (Unit::Microseconds, "ms") => 1e3,
            (Unit::Microseconds, "s") => 1e6,
            (Unit::Microseconds, "m") => 6e7,
            (Unit::Count, "%") => 1.0,
            (Unit::Bytes | Unit::Count, "k" | "kb" | "ki" | "kib") => 1024.0,
            (Unit::Bytes | Unit::Count, "m" | "mb" | "mi" | "mib") => 1024.0 * 1024.0,
            (Unit::Bytes | Unit::Count, "g" | "gb" | "gi" | "gib") => 1024.0 * 1024.0 * 1024.0,
            (Unit::Bytes, "t" | "tb" | "ti" | "tib") => 1024.0f64.powi(4),
            _ => return None,
        };
        Some(number * factor).filter(|value| value.is_finite())
    }
}
