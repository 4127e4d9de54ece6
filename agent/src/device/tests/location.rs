//! Names of devices.

use crate::device::{Location, Target};

#[test]
fn a_device_has_one_name() {
    for (name, target) in [
        ("cuda", Target::AnyCuda),
        ("cuda:0", Target::Cuda(0)),
        ("cuda:17", Target::Cuda(17)),
        ("simulated", Target::Simulated),
    ] {
        assert_eq!(name.parse(), Ok(target));
        assert_eq!(target.to_string(), name);
    }
}

#[test]
fn other_names_are_refused_and_said() {
    let long = "cuda:".repeat(1000);
    for name in [
        "",
        "cpu",
        "CUDA:0",
        "cuda:",
        "cuda:-1",
        "cuda:+1",
        "cuda:01",
        "cuda: 0",
        "cuda:0 ",
        "cuda:0:1",
        "cuda:4294967296",
        "cuda:\u{661}",
        "simulated:0",
        "cuda\0",
        "gpu:0",
        &long,
    ] {
        let error = name.parse::<Target>().unwrap_err();
        let found: String = name.chars().take(64).collect();
        assert_eq!(error.found, found);
        assert!(error.to_string().contains("cuda:N"), "{error}");
    }
}

#[test]
fn a_model_is_where_it_was_asked_for() {
    for (target, location, met) in [
        (Target::AnyCuda, Location::Cuda(3), true),
        (Target::Cuda(3), Location::Cuda(3), true),
        (Target::Cuda(2), Location::Cuda(3), false),
        (Target::Simulated, Location::Simulated, true),
        (Target::Simulated, Location::Cuda(0), false),
        (Target::AnyCuda, Location::Simulated, false),
    ] {
        assert_eq!(target.is_met_by(location), met, "{target} {location}");
    }
}
