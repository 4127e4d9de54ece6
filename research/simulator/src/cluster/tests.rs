//! Tests of memory and loads under each way of sharing.

use super::*;
use crate::catalog::{Application, ModelAssumptions};

const GB_USE: u64 = 1_651_000_000;
const OWN: u64 = 69_000_000;
const KEEP_ALIVE_US: u64 = 60_000_000;

fn functions(application: Application) -> Vec<Function> {
    let all = application.stages().iter().copied().flatten();
    let assumed = ModelAssumptions::default();
    all.map(|&(model, variant)| Function::try_new(model, variant, &assumed).unwrap())
        .collect()
}

fn ss() -> (Function, Configuration) {
    let function = functions(Application::Ss).remove(0);
    let configuration = function.profile.configurations()[0];
    (function, configuration)
}

fn cluster(nodes: usize, sharing: Sharing, copied_permille: u64) -> Cluster {
    let rules = WeightRules {
        sharing,
        copied_permille,
        keep_alive_us: KEEP_ALIVE_US,
    };
    Cluster::try_new(nodes, rules).unwrap()
}

fn disk(bytes: u64) -> Loads {
    Loads {
        disk_bytes: bytes,
        cache_bytes: 0,
    }
}

fn cache(bytes: u64) -> Loads {
    Loads {
        disk_bytes: 0,
        cache_bytes: bytes,
    }
}

#[test]
fn a_second_instance_costs_and_loads_what_it_does_not_share() {
    let (function, one) = ss();
    // Way of sharing, copied share, memory of two instances beside 2 x `OWN`, and second load.
    for (sharing, copied, memory, second) in [
        (Sharing::Private, 0, 2 * GB_USE, disk(GB_USE)),
        (Sharing::CopiedFile, 0, 2 * GB_USE, cache(GB_USE)),
        (Sharing::MappedFile, 0, GB_USE, Loads::default()),
        (Sharing::MappedFile, 1_000, 2 * GB_USE, cache(GB_USE)),
        (Sharing::MappedFile, 500, GB_USE / 2 * 3, cache(GB_USE / 2)),
        (Sharing::Store, 0, GB_USE, Loads::default()),
    ] {
        let mut cluster = cluster(8, sharing, copied);
        let first = cluster.start(1, &function, &one).unwrap();
        assert_eq!(first, Some(disk(GB_USE)), "{sharing:?}");
        let again = cluster.start(1, &function, &one).unwrap();
        assert_eq!(again, Some(second), "{sharing:?}");
        let used = cluster.used();
        assert_eq!(used.cpu_millis, 2_000);
        assert_eq!(used.memory_bytes, memory + 2 * OWN, "{sharing:?} {copied}");
    }
}

#[test]
fn variants_share_tensors_in_a_store_and_nothing_in_the_page_cache() {
    let svt = functions(Application::Svt);
    let configuration = svt[1].profile.configurations()[0];
    for (sharing, second) in [
        (Sharing::Store, 8_000_000),
        (Sharing::MappedFile, 231_000_000),
    ] {
        let mut cluster = cluster(1, sharing, 0);
        cluster.start(0, &svt[1], &configuration).unwrap();
        let loads = cluster.start(0, &svt[2], &configuration).unwrap();
        assert_eq!(loads, Some(disk(second)), "{sharing:?}");
    }
}

#[test]
fn unmapped_files_are_free_memory_and_make_the_next_start_fast() {
    let (function, one) = ss();
    let mut cluster = cluster(1, Sharing::MappedFile, 0);
    cluster.start(0, &function, &one).unwrap();
    assert_eq!(cluster.cached_bytes(), 0);
    cluster.stop(0, &function, &one, 1);
    assert_eq!(cluster.used(), Resources::default());
    assert_eq!(cluster.cached_bytes(), GB_USE);
    assert_eq!(cluster.nodes()[0].free(), cluster.nodes()[0].all);
    let again = cluster.start(0, &function, &one).unwrap();
    assert_eq!(again, Some(Loads::default()));
}

#[test]
fn memory_pressure_evicts_the_file_that_was_used_least_recently() {
    let (function, one) = ss();
    let lstm = functions(Application::QaText).remove(1);
    let small = lstm.profile.configurations()[0];
    let mut cluster = cluster(1, Sharing::CopiedFile, 0);
    cluster.start(0, &lstm, &small).unwrap();
    cluster.reclaim(1).unwrap();
    cluster.start(0, &function, &one).unwrap();
    assert_eq!(cluster.cached_bytes(), 23_000_000 + GB_USE);
    // Room for one of the files, after the instance of Lstm has given back 261 MB.
    cluster.nodes[0].used.memory_bytes = cluster.nodes[0].all.memory_bytes - 1_400_000_000;
    cluster.stop(0, &lstm, &small, 2);
    assert_eq!(cluster.cached_bytes(), GB_USE);
    assert_eq!(cluster.nodes()[0].missing_bytes(&function.file), 0);
    assert_eq!(cluster.nodes()[0].missing_bytes(&lstm.file), 23_000_000);
}

#[test]
fn tensors_stay_for_the_window_and_the_inventory_follows() {
    let (function, one) = ss();
    let mut cluster = cluster(2, Sharing::Store, 0);
    cluster.start(1, &function, &one).unwrap();
    let theta = |cluster: &Cluster| {
        let theta = cluster.inventory().theta(&function.tensors, "node-00001");
        theta.unwrap().permille()
    };
    cluster.reclaim(10 * KEEP_ALIVE_US).unwrap();
    assert_eq!(theta(&cluster), 1_000);
    cluster.stop(1, &function, &one, KEEP_ALIVE_US);
    cluster.reclaim(2 * KEEP_ALIVE_US - 1).unwrap();
    assert_eq!(cluster.used().memory_bytes, GB_USE);
    assert_eq!(theta(&cluster), 1_000);
    cluster.reclaim(2 * KEEP_ALIVE_US).unwrap();
    assert_eq!(cluster.used(), Resources::default());
    assert_eq!(theta(&cluster), 0);
}

#[test]
fn no_node_gives_more_than_it_has() {
    let (function, one) = ss();
    let mut cluster = cluster(3, Sharing::Store, 0);
    for _ in 0..32 {
        assert!(cluster.start(2, &function, &one).unwrap().is_some());
    }
    assert_eq!(cluster.start(2, &function, &one).unwrap(), None);
    assert_eq!(cluster.start(3, &function, &one).unwrap(), None);
    assert_eq!(cluster.nodes()[2].free().cpu_millis, 0);
}
