// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests inflection points and labels on recordings of a real NVMe SSD.

use crate::common;

use linnet_learn::{InflectionOptions, inflection_points, label};
use linnet_types::{IoRecord, Nanos};

fn recordings() -> Option<Vec<Vec<IoRecord>>> {
    common::FLASHNET.map(common::recording).into_iter().collect()
}

#[test]
fn inflection_points_of_flashnet() {
    let Some(traces) = recordings() else { return };
    let reads = |t: &Vec<IoRecord>| t.iter().filter(|r| r.op.is_read()).filter_map(|r| r.latency_ns).collect();
    let latencies: Vec<Vec<Nanos>> = traces.iter().map(reads).collect();
    let latencies: Vec<&[Nanos]> = latencies.iter().map(Vec::as_slice).collect();
    let found = inflection_points(&latencies, &InflectionOptions::default()).unwrap();
    let row: Vec<(f64, f64, Nanos)> =
        found.iter().map(|f| (f.start_percentile, f.percentile, f.latency_ns / 1000)).collect();
    // Latencies without a knee: the boost increases down to the end of the window, within the paper's p72.0 to p98.5 or
    // slightly below. The draws are seeded, so the figures are exact.
    assert_eq!(row, [(84.2, 74.2, 2280), (81.1, 71.1, 2040), (84.7, 74.7, 2201)]);
    assert!(found.iter().all(|f| f.boost_ns > 400_000.0 && f.percentile == f.boost[0].percentile));
}

#[test]
fn every_read_of_flashnet_is_a_row_or_is_counted() {
    let Some(traces) = recordings() else { return };
    for (name, records) in common::FLASHNET.iter().zip(&traces) {
        let options = InflectionOptions { ios: 100_000, ..Default::default() };
        let labelled = label(&[records], 0.8, &options).unwrap().remove(0);
        let reads = records.iter().filter(|r| r.op.is_read()).count();
        let dropped = labelled.train.dropped;
        assert_eq!((dropped.reads_without_latency, dropped.writes_without_latency), (0, 0));
        assert_eq!(labelled.train.len() + labelled.test.len() + dropped.warm_up as usize, reads, "{name}");
        assert!(dropped.warm_up < 100, "{name}: {dropped:?}");
        let fast = labelled.train.slow.iter().filter(|&&slow| !slow).count() as f64;
        let share = 100.0 * fast / labelled.train.len() as f64;
        assert!((share - labelled.inflection.percentile).abs() < 0.2, "{name}: {share}");
    }
}
