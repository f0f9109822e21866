// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests how references are read: missing values have defaults, and errors name the place.

use std::path::PathBuf;

use linnet_ssd::{Reference, check, queued::QueuedParams};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("linnet-ssd-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, json: &str, csv: &str) -> PathBuf {
        std::fs::write(self.0.join("r.csv"), csv).unwrap();
        std::fs::write(self.0.join("r.json"), json).unwrap();
        self.0.join("r.json")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

const HEADER: &str = "t_ns,op,lba_512,sectors,phase,latency_ns\n";

#[test]
fn a_bare_reference_is_compared_with_defaults() {
    let folder = Folder::new("bare");
    let rows = format!("{HEADER}0,W,0,8,p,1966\n5000000,R,0,8,m,69802\n6000000,R,8,8,m,\n");
    let path = folder.write(r#"{"parameters": {"copyback": true, "moon_phase": 3, "t_read_ns": 60000}}"#, &rows);
    let reference = Reference::read(&path).unwrap();
    assert_eq!(reference.params, QueuedParams::default());
    let (found, stats) = check(&path).unwrap();
    assert_eq!((found.mean_ratio, found.p999_ratio, found.ks_log10pct), (1.0, 1.0, 0.0));
    assert_eq!((found.reads, found.not_completed_in_reference, found.not_completed), (1, 1, 0));
    assert_eq!(found.ignored_parameters, ["moon_phase", "copyback"]);
    assert_eq!((found.waf_ratio, stats.host_programs), (None, 1));
}

#[test]
fn what_is_wrong_is_named() {
    let folder = Folder::new("wrong");
    let refusal = |json: &str, csv: &str| check(&folder.write(json, csv)).unwrap_err().to_string();
    let plain = r#"{"parameters": {}}"#;
    assert!(refusal("{", HEADER).contains("line 1"));
    assert!(refusal("{}", HEADER).contains("parameters"));
    assert!(refusal(r#"{"parameters": {"channels": 0}}"#, HEADER).contains("channels = 0"));
    assert!(refusal(r#"{"parameters": {"channels": "many"}}"#, HEADER).contains("many"));
    assert!(refusal(plain, HEADER).contains("no measured read"));
    assert!(refusal(plain, "t_ns,op\n").contains("lba_512"));
    assert!(refusal(plain, &format!("{HEADER}x,R,0,8,m,1\n")).contains("line 2, column t_ns"));
    assert!(refusal(plain, &format!("{HEADER}5,R,0,8,m,1\n4,R,0,8,m,1\n")).contains("line 3"));
    assert!(refusal(plain, &format!("{HEADER}5,X,0,8,m,1\n")).contains("neither R nor W"));
    assert!(refusal(plain, &format!("{HEADER}5,R,0,0,m,1\n")).contains("sectors"));
    let path = folder.write(plain, HEADER);
    std::fs::remove_file(path.with_extension("csv")).unwrap();
    assert!(check(&path).unwrap_err().to_string().contains("r.csv"));
}

#[test]
fn a_file_without_end_is_refused() {
    let text = Reference::read(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(text.contains("the limit for files of this kind"), "{text}");
}
