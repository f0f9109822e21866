// SPDX-License-Identifier: MIT OR Apache-2.0
//! Python bindings: the engine behind the package `linnet`. Shapes and types are checked here; all other work is done
//! by the other crates. `python/src/linnet/_native.pyi` is the Python side of this contract.

mod array;
#[cfg(feature = "bench")]
mod bench;
mod colocate;
mod drives;
mod errors;
mod forest;
mod items;
mod knob;
mod knob_model;
mod learn;
mod model;
mod network;
mod numbers;
mod output;
mod pickled;
mod progress;
mod replay;
mod serve;
mod setup;
mod sklearn;
mod ssd;
mod staging;
mod study;
mod sweep;
mod tenant;
mod trace;
mod trace_files;
mod tune;
mod whole;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::array::{
        PyArray, PyRun, check_policy, deployed_policies, engine_of, fitted_to, kernel_policies, learned_policies,
        policies, presets, queued_presets,
    };
    #[cfg(feature = "bench")]
    #[pymodule_export]
    use crate::bench::{bench_decide, bench_decide_count, bench_network, bench_ssd, bench_ssd_count, bench_tune};
    #[pymodule_export]
    use crate::colocate::{PySharedDrive, PyTenantLoad, shared_drives};
    #[pymodule_export]
    use crate::errors::{DeviceError, Error, LearnError, ModelError, PolicyError, TenantError, TraceError, TuneError};
    #[pymodule_export]
    use crate::forest::PyForest;
    #[pymodule_export]
    use crate::knob::{PyFloatNetwork, PyTree};
    #[pymodule_export]
    use crate::knob_model::PyKnobModel;
    #[pymodule_export]
    use crate::learn::{
        evaluate, fit, inflection_point, inflight_rows, training_latencies, training_rows, without_rows,
    };
    #[pymodule_export]
    use crate::model::{PyModel, crc32c};
    #[pymodule_export]
    use crate::network::PyNetwork;
    #[pymodule_export]
    use crate::output::PyOutput;
    #[pymodule_export]
    use crate::replay::{check_replay_policy, replay};
    #[pymodule_export]
    use crate::serve::PyServer;
    #[pymodule_export]
    use crate::ssd::{PyDevice, PyDeviceRun, quantiles_ns, ssd_check, ssd_parameters};
    #[pymodule_export]
    use crate::staging::PyStagingDrive;
    #[pymodule_export]
    use crate::study::counterfactual::counterfactual;
    #[pymodule_export]
    use crate::study::drift::drift_study;
    #[pymodule_export]
    use crate::study::history::{history_rows, train_network};
    #[pymodule_export]
    use crate::study::informed::informed;
    #[pymodule_export]
    use crate::study::paths::scored_paths;
    #[pymodule_export]
    use crate::study::{PyStudy, defects, wide_rows};
    #[pymodule_export]
    use crate::sweep::{PyTuneDevice, PyTuneObserver, tune_features, tune_ladder};
    #[pymodule_export]
    use crate::tenant::{
        PyTenantProfile, aggregate_features, aggregate_profiles, declared_profiles, profile_features, profile_file,
        profile_trace, same_workload,
    };
    #[pymodule_export]
    use crate::trace::{PyTrace, record_room, synth, trace_formats, workloads};
    #[pymodule_export]
    use crate::trace_files::{trace_convert, trace_stat};
    #[pymodule_export]
    use crate::tune::{
        tune_doctor, tune_event_cost, tune_nfs, tune_open_files, tune_readahead, tune_restore, tune_sight,
    };

    use super::*;

    /// Panics; for the tests of what becomes of it.
    #[pyfunction]
    fn _panic(text: &str) {
        panic!("{text}");
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // A panic is a defect of ours, and no reason to end somebody's process: PyO3 makes it an exception that
        // `except Exception` does not catch, so it gets a base that it does.
        let panic = module.py().get_type::<pyo3::panic::PanicException>();
        panic.setattr("__bases__", (module.py().get_type::<pyo3::exceptions::PyException>(),))?;
        module.add("Panic", panic)?;
        module.add("READ_TIMEOUT_NS", linnet_array::Config::default().read_timeout_ns)?;
        module.add("FAILOVER_NS", linnet_types::FAILOVER_NS)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__commit__", env!("LINNET_COMMIT"))
    }
}
