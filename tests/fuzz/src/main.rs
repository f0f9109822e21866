// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives damaged input to every reader of bytes from outside, and checks that each is read or refused, quickly and
//! without a panic.
//!
//! `cargo run --manifest-path tests/fuzz/Cargo.toml -- [--target traces|models|knobs|forests|params|
//! snapshots|jobs|nbd|nbd-client] [--seed N] [--cases N | --seconds N] [--format NAME] [--keep FOLDER] [CORPUS
//! FILE...]`
//!
//! A case is valid input (some is built in; corpus files are added to the traces) with bytes changed, cut, repeated, or
//! spliced with other input. The seed is printed first. A case that panics or takes more than two seconds is kept, and
//! its name is printed with the command that repeats it. A target of which no case was accepted, or none refused, is a
//! finding too: it tests nothing. Exit status: 0 nothing found, 1 something found, 2 usage.
//!
//! On a busy machine, a process may wait for seconds for its turn. So the time of a case is what this process computed;
//! where it waits for a server or a client, the case is slow if it is so each of three times.

mod nbd;
mod nbd_client;
mod seeds;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use linnet_sim::Chance;
use linnet_trace::{FORMATS, Options, read_all};

/// A reader that takes longer than this for a few kilobytes counts as stuck.
const SLOW: Duration = Duration::from_secs(2);
/// A case that waits for others is run so often before it counts as late.
const TRIES: u32 = 3;

struct Arguments {
    target: String,
    seed: u64,
    cases: u64,
    time: Option<Duration>,
    first: u64,
    format: Option<String>,
    keep: PathBuf,
    corpus: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        target: "traces".into(),
        seed: 0,
        cases: 20_000,
        time: None,
        first: 0,
        format: None,
        keep: std::env::temp_dir(),
        corpus: vec![],
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().ok_or(format!("{name} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is not a number"));
        match name.as_str() {
            "--target" => found.target = value()?,
            "--seconds" => {
                found.time = Some(Duration::from_secs(number(value()?)?));
                found.cases = u64::MAX / 2;
            }
            "--seed" => found.seed = number(value()?)?,
            "--cases" => found.cases = number(value()?)?,
            "--first" => found.first = number(value()?)?,
            "--format" => found.format = Some(value()?),
            "--keep" => found.keep = value()?.into(),
            option if option.starts_with("--") => return Err(format!("unknown option {option}")),
            file => found.corpus.push(file.into()),
        }
    }
    Ok(found)
}

const NUMBERS: [&str; 10] = [
    "0",
    "1",
    "0.0000001",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999",
    "1e308",
];

/// Damages a file; it may be spliced with one of `others`.
fn damage(bytes: &mut Vec<u8>, others: &[(String, Vec<u8>)], chance: &mut Chance) {
    for _ in 0..1 + chance.below(4) {
        let length = bytes.len().max(1) as u64;
        let at = (chance.below(length) as usize).min(bytes.len());
        match chance.below(9) {
            0 => bytes.truncate(at),
            1..=3 if at < bytes.len() => bytes[at] = chance.bits() as u8,
            4 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            5 => {
                let end = (at + 1 + chance.below(64) as usize).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            6 => {
                let end = (at + 1 + chance.below(16) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            7 => {
                // The next number of a text becomes one at the edge of what a reader may hold.
                let digits = |from: usize, want: bool| bytes[from..].iter().position(|b| b.is_ascii_digit() == want);
                if let Some(start) = digits(at.min(bytes.len()), true).map(|n| at + n) {
                    let end = digits(start, false).map_or(bytes.len(), |n| start + n);
                    let number = NUMBERS[chance.below(NUMBERS.len() as u64) as usize];
                    bytes.splice(start..end, number.bytes());
                }
            }
            _ => {
                let other = &others[chance.below(others.len() as u64) as usize].1;
                let from = (chance.below(other.len().max(1) as u64) as usize).min(other.len());
                let to = (from + 1 + chance.below(64) as usize).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
}

/// What this process has computed, all threads together. Linux tells it here in hundredths of a second.
fn computed() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    // Behind the name, which may have spaces: state is field 3, time in user mode 14, in the kernel 15.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let hundredths: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * hundredths)
}

/// The time of a case that computes.
struct Watch {
    begun: Instant,
    computed: Duration,
}

impl Watch {
    fn start() -> Watch {
        Watch { begun: Instant::now(), computed: computed() }
    }

    /// What is wrong with it, if too much was computed since the start.
    fn slow(&self) -> Option<String> {
        let took = self.begun.elapsed();
        if took <= SLOW {
            return None;
        }
        let computed = computed().saturating_sub(self.computed);
        (computed > SLOW).then(|| format!("computed for {computed:?}, took {took:?}"))
    }
}

/// What is wrong with a case that waits for others.
enum Problem {
    /// It did not come to its end in time; the machine may be why.
    Late(String),
    Wrong(String),
}

impl From<String> for Problem {
    fn from(what: String) -> Problem {
        Problem::Wrong(what)
    }
}

/// Runs a case that waits for others again while it is late. True if it was accepted.
fn in_time(mut run: impl FnMut() -> Result<bool, Problem>) -> Result<bool, String> {
    let mut late = String::new();
    for _ in 0..TRIES {
        let begun = Instant::now();
        match run() {
            Ok(_) if begun.elapsed() > SLOW => late = format!("took {:?}", begun.elapsed()),
            Ok(accepted) => return Ok(accepted),
            Err(Problem::Late(what)) => late = what,
            Err(Problem::Wrong(what)) => return Err(what),
        }
    }
    Err(format!("{late}; late {TRIES} times"))
}

/// What became of a case that is no finding.
enum Fate {
    Accepted,
    Refused,
}

/// What became of this file, or the problem with it.
fn judge(path: &Path, format: Option<&str>, lenient: bool) -> Result<Fate, String> {
    let options = Options { format: format.map(str::to_string), lenient, ..Options::default() };
    let watch = Watch::start();
    let result = catch_unwind(AssertUnwindSafe(|| read_all(path, options)));
    let slow = watch.slow();
    let problem = match result {
        Err(_) => "panic",
        Ok(_) if slow.is_some() => return Err(slow.unwrap_or_default()),
        Ok(Ok(trace)) if trace.records.is_empty() => "no record and no error",
        Ok(Ok(trace)) if !trace.records.is_sorted_by_key(|r| r.arrive_ns) || trace.records[0].arrive_ns != 0 => {
            "not sorted from 0"
        }
        Ok(Ok(trace)) if trace.records.iter().any(|r| r.size_bytes == 0) => "a record of no size",
        Ok(Err(error)) if error.to_string().is_empty() => "an error without words",
        Ok(Ok(_)) => return Ok(Fate::Accepted),
        Ok(Err(_)) => return Ok(Fate::Refused),
    };
    Err(problem.into())
}

/// What became of these bytes in the other targets.
fn judge_bytes(target: &mut targets::Target, bytes: &[u8]) -> Result<Fate, String> {
    // These wait for others, and judge themselves how long: by what this process computes, tries would add up.
    let waits = matches!(target, targets::Target::Nbd(_) | targets::Target::NbdClient(_));
    let watch = Watch::start();
    let result = catch_unwind(AssertUnwindSafe(|| target.run(bytes)));
    match (result, watch.slow().filter(|_| !waits)) {
        (Err(_), _) => Err("panic".into()),
        (Ok(Err(problem)), _) | (Ok(Ok(_)), Some(problem)) => Err(problem),
        (Ok(Ok(true)), None) => Ok(Fate::Accepted),
        (Ok(Ok(false)), None) => Ok(Fate::Refused),
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    println!("seed {}", arguments.seed);
    let scratch = std::env::temp_dir().join(format!("linnet-fuzz-{}", std::process::id()));
    let made = std::fs::create_dir_all(&scratch).map_err(|e| e.to_string());
    let made = made.and_then(|()| match arguments.target.as_str() {
        "traces" => {
            let made = seeds::built_in(&scratch).map_err(|e| e.to_string())?;
            match FORMATS.iter().find(|format| made.iter().all(|(name, _)| name != format.name)) {
                Some(format) => Err(format!("no seed has the format {}", format.name)),
                None => Ok((made, None)),
            }
        }
        name => targets::Target::new(name, &scratch).map(|(target, seeds)| (seeds, Some(target))),
    });
    let (mut corpus, mut target) = match made {
        Ok(made) => made,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    for file in &arguments.corpus {
        match (std::fs::read(file), linnet_trace::detect(file)) {
            (Ok(bytes), Ok(format)) => corpus.push((format.name.to_string(), bytes)),
            (Err(error), _) => eprintln!("{}: {error}", file.display()),
            (_, Err(error)) => eprintln!("{error}"),
        }
    }
    let all = corpus.clone();
    if let Some(wanted) = &arguments.format {
        corpus.retain(|(name, _)| name == wanted);
    }
    if corpus.is_empty() {
        eprintln!("no file of the corpus has this format; known are {FORMATS:?}");
        return ExitCode::from(2);
    }
    let chance = Chance::new(arguments.seed);
    let path = scratch.join("case.trace");
    let (mut found, mut done, mut accepted, mut refused) = (0, 0, 0u64, 0u64);
    let begun = Instant::now();
    for case in arguments.first..arguments.first + arguments.cases {
        if arguments.time.is_some_and(|time| begun.elapsed() >= time) {
            break;
        }
        done += 1;
        let mut chance = chance.fork(case);
        let (name, bytes) = &corpus[chance.below(corpus.len() as u64) as usize];
        let mut bytes = bytes.clone();
        damage(&mut bytes, &all, &mut chance);
        let format = (!chance.happens(0.2)).then_some(name.as_str());
        let lenient = chance.happens(0.5);
        let fate = match &mut target {
            Some(target) => {
                target.mend(&mut bytes);
                judge_bytes(target, &bytes)
            }
            None => {
                if let Err(error) = std::fs::write(&path, &bytes) {
                    eprintln!("{}: {error}", path.display());
                    return ExitCode::from(2);
                }
                judge(&path, format, lenient)
            }
        };
        match &fate {
            Ok(Fate::Accepted) => accepted += 1,
            Ok(Fate::Refused) => refused += 1,
            Err(_) => {}
        }
        if let Err(what) = fate {
            found += 1;
            let kept = arguments.keep.join(format!("linnet-fuzz-{}-{case}.trace", arguments.seed));
            let kept_as = std::fs::write(&kept, &bytes).map_or_else(|e| e.to_string(), |()| kept.display().to_string());
            println!("case {case}: {name}, format {format:?}, lenient {lenient}: {what}; kept as {kept_as}");
            println!("repeat with: --target {} --seed {} --first {case} --cases 1", arguments.target, arguments.seed);
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    println!("{}: {done} cases, {accepted} accepted, {refused} refused, {found} found", arguments.target);
    if done >= 1000 && (accepted == 0 || refused == 0) {
        println!("{}: every case had the same fate; the seeds or the damage test nothing", arguments.target);
        found += 1;
    }
    ExitCode::from(u8::from(found > 0))
}
