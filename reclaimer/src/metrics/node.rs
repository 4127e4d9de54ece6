//! Gauges of the latest status.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::families::{Families, Labels};
use super::shortfall::{BLOCKERS, by_goal, joined};
use crate::keep_warm::Freshness;
use crate::report::{
    Amount, HolderCounts, ModelStatus, MountStatus, NodeStatus, ObjectState, StoreStatus,
    VolumeStatus,
};

/// Names of [`Freshness`] in the metric of declarations.
const FRESHNESS: [&str; 4] = ["no-cluster", "unknown", "current", "stale"];

/// The status as metrics.
#[derive(Debug)]
pub(super) struct NodeMetrics(pub Arc<NodeStatus>);

impl Collector for NodeMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Families(encoder);
        node(&mut out, &self.0)?;
        declarations(&mut out, &self.0)?;
        states(&mut out, &self.0.stores)?;
        stores(&mut out, &self.0.stores)?;
        models(&mut out, &self.0.stores)?;
        mounts(&mut out, &self.0.mounts)?;
        volumes(&mut out, self.0.volumes.as_ref())?;
        shortfalls(&mut out, &self.0)
    }
}

fn node(out: &mut Families<'_>, status: &NodeStatus) -> fmt::Result {
    let name = status.node.as_deref().unwrap_or_default();
    out.family(
        "node_info",
        None,
        "The node's name; always 1.",
        [(vec![("node", name)], 1u64)],
    )?;
    let seconds = status.observed_ms as f64 / 1000.0;
    out.one(
        "last_pass_timestamp",
        Some(&Unit::Seconds),
        "End of the last pass, in seconds since the epoch.",
        seconds,
    )?;
    out.one(
        "holder_counts_complete",
        None,
        "1 when all locks of the node were counted, so that holders and savings are exact.",
        u64::from(status.holder_counts == HolderCounts::Complete),
    )?;
    out.one(
        "dry_run",
        None,
        "1 in a dry run, which only plans.",
        u64::from(status.dry_run),
    )
}

fn declarations(out: &mut Families<'_>, status: &NodeStatus) -> fmt::Result {
    out.one(
        "declaring_pods",
        None,
        "Pods of this node that declare models.",
        status.declaring_pods,
    )?;
    let now = freshness(status.declarations);
    let states = FRESHNESS.map(|state| (vec![("state", state)], u64::from(state == now)));
    out.family(
        "declarations",
        None,
        "Trust in the declarations of pods: 1 for the current state.",
        states,
    )
}

fn freshness(declarations: Freshness) -> &'static str {
    match declarations {
        Freshness::NoCluster => "no-cluster",
        Freshness::Unknown => "unknown",
        Freshness::Current => "current",
        Freshness::Stale { .. } => "stale",
    }
}

fn states(out: &mut Families<'_>, stores: &[StoreStatus]) -> fmt::Result {
    let by_state = |of: fn(Amount) -> u64| {
        stores.iter().flat_map(move |store| {
            ObjectState::ALL.map(|state| {
                let labels = vec![("store", store.name.as_str()), ("state", state.name())];
                (
                    labels,
                    of(store.states.get(&state).copied().unwrap_or_default()),
                )
            })
        })
    };
    out.family(
        "store",
        Some(&Unit::Bytes),
        "Memory that objects occupy, by state.",
        by_state(|a| a.bytes),
    )?;
    out.family(
        "store_objects",
        None,
        "Objects, by state.",
        by_state(|a| a.objects),
    )
}

fn stores(out: &mut Families<'_>, stores: &[StoreStatus]) -> fmt::Result {
    let up = |s: &StoreStatus| u64::from(s.error.is_none());
    out.family(
        "store_up",
        None,
        "1 when the store can be used.",
        by_store(stores, up),
    )?;
    out.family(
        "store_inodes",
        None,
        "Inodes of objects, records and folders.",
        by_store(stores, |s| s.inodes),
    )?;
    let limited = |of: fn(&StoreStatus) -> Option<u64>| {
        let limited = stores.iter().filter_map(move |s| Some((s, of(s)?)));
        limited.map(|(store, limit)| (vec![("store", store.name.as_str())], limit))
    };
    out.family(
        "store_inode_limit",
        None,
        "Limit of the store's inodes; absent without one.",
        limited(|s| s.limit_inodes),
    )?;
    out.family(
        "store_limit",
        Some(&Unit::Bytes),
        "Limit of the store's memory; absent without one.",
        limited(|s| s.limit_bytes),
    )?;
    out.family(
        "store_guaranteed",
        Some(&Unit::Bytes),
        "Memory that the store can have at any time.",
        by_store(stores, |s| s.guaranteed_bytes),
    )?;
    out.family(
        "store_records",
        None,
        "Manifests, identities and derived records.",
        by_store(stores, |s| s.records.files),
    )?;
    out.family(
        "store_record",
        Some(&Unit::Bytes),
        "Memory that records occupy.",
        by_store(stores, |s| s.records.bytes),
    )?;
    out.family(
        "store_record_limit",
        Some(&Unit::Bytes),
        "Limit of the records' memory.",
        by_store(stores, |s| s.records.limit_bytes),
    )?;
    out.family(
        "store_records_not_followed",
        None,
        "Records whose objects the daemon has no memory to follow: these are freed by their own times.",
        by_store(stores, |s| s.records.not_followed),
    )?;
    out.family(
        "store_records_quarantined",
        None,
        "Records that were quarantined and are not read, since starts of the daemon ended while they read the store.",
        by_store(stores, |s| s.records.quarantined),
    )?;
    out.family(
        "store_holders",
        None,
        "Locks that mappings hold.",
        by_store(stores, |s| s.holders),
    )?;
    out.family(
        "store_saved",
        Some(&Unit::Bytes),
        "Memory that private copies would occupy beyond the store's.",
        by_store(stores, |s| s.saved_bytes),
    )?;
    out.family(
        "store_sharing_factor",
        None,
        "Mappings of each byte in use, on average; 1 without sharing.",
        by_store(stores, |s| s.sharing_factor),
    )?;
    out.family(
        "store_foreign_entries",
        None,
        "Foreign entries in the store's folder.",
        by_store(stores, |s| s.foreign.len() as u64),
    )
}

fn models(out: &mut Families<'_>, stores: &[StoreStatus]) -> fmt::Result {
    let residency = stores.iter().flat_map(|store| {
        ["full", "part", "none"].map(|residency| {
            let labels = vec![("store", store.name.as_str()), ("residency", residency)];
            (
                labels,
                count(store, |model| self::residency(model) == residency),
            )
        })
    });
    out.family(
        "store_models",
        None,
        "Manifests and derived records, by how much of them is in the store.",
        residency,
    )?;
    let held_models = |s: &StoreStatus| count(s, |model| model.held_bytes > 0);
    out.family(
        "store_held_models",
        None,
        "Manifests and derived records with a mapped object.",
        by_store(stores, held_models),
    )?;
    let warm = |s: &StoreStatus| count(s, |model| model.warm);
    out.family(
        "store_warm_models",
        None,
        "Manifests and derived records that are declared warm.",
        by_store(stores, warm),
    )
}

fn residency(model: &ModelStatus) -> &'static str {
    match model.resident_bytes {
        resident if resident >= model.total_bytes => "full",
        0 => "none",
        _ => "part",
    }
}

fn count(store: &StoreStatus, which: impl Fn(&ModelStatus) -> bool) -> u64 {
    store.models.iter().filter(|model| which(model)).count() as u64
}

fn by_store<N>(
    stores: &[StoreStatus],
    of: impl Fn(&StoreStatus) -> N,
) -> impl Iterator<Item = (Labels<'_>, N)> {
    stores
        .iter()
        .map(move |store| (vec![("store", store.name.as_str())], of(store)))
}

fn mounts(out: &mut Families<'_>, mounts: &[MountStatus]) -> fmt::Result {
    let names: Vec<String> = mounts.iter().map(|mount| joined(&mount.stores)).collect();
    let by_mount = |of: fn(&MountStatus) -> u64| {
        names
            .iter()
            .zip(mounts)
            .map(move |(name, mount)| (vec![("stores", name.as_str())], of(mount)))
    };
    out.family(
        "mount_capacity",
        Some(&Unit::Bytes),
        "Size of the file system, by the stores on it.",
        by_mount(|m| m.capacity_bytes),
    )?;
    out.family(
        "mount_free",
        Some(&Unit::Bytes),
        "Free memory.",
        by_mount(|m| m.free_bytes),
    )?;
    out.family(
        "mount_inodes",
        None,
        "Number of files that it can hold; 0 without a limit.",
        by_mount(|m| m.inodes),
    )?;
    out.family(
        "mount_free_inodes",
        None,
        "Free inodes.",
        by_mount(|m| m.inodes_free),
    )?;
    let seen = || {
        let mounts = names.iter().zip(mounts);
        mounts.filter_map(|(name, mount)| Some((name.as_str(), mount.pages.as_ref()?)))
    };
    out.family(
        "mount_large_pages_ratio",
        None,
        "Share of files' bytes that 2 MiB pages map, measured with a probe file.",
        seen().map(|(name, pages)| (vec![("stores", name)], pages.large_ratio())),
    )?;
    let small = seen().filter_map(|(name, pages)| {
        let reason = pages.small_because.as_ref()?.name;
        Some((vec![("stores", name), ("reason", reason)], 1u64))
    });
    out.family(
        "mount_small_pages",
        None,
        "1 where files have 4 KiB pages, with the reason.",
        small,
    )
}

fn volumes(out: &mut Families<'_>, volumes: Option<&VolumeStatus>) -> fmt::Result {
    let counts = volumes.into_iter().flat_map(|volumes| {
        [("idmapped", volumes.idmapped), ("plain", volumes.plain)]
            .map(|(ids, count)| (vec![("ids", ids)], count))
    });
    out.family(
        "volumes",
        None,
        "Volumes of pods: idmapped ones, where no user of a container owns a file, and plain ones.",
        counts,
    )
}

fn shortfalls(out: &mut Families<'_>, status: &NodeStatus) -> fmt::Result {
    let all = by_goal(status);
    let missing = all.iter().map(|((stores, goal), blocked)| {
        (
            vec![("stores", stores.as_str()), ("goal", *goal)],
            blocked.missing,
        )
    });
    out.family(
        "shortfall",
        Some(&Unit::Bytes),
        "Bytes by which the last pass missed a goal.",
        missing,
    )?;
    let blocked = all.iter().flat_map(|((stores, goal), blocked)| {
        BLOCKERS
            .into_iter()
            .zip(blocked.by)
            .map(move |(by, bytes)| {
                (
                    vec![("stores", stores.as_str()), ("goal", *goal), ("by", by)],
                    bytes,
                )
            })
    });
    out.family(
        "shortfall_blocked",
        Some(&Unit::Bytes),
        "Bytes that stay although a goal is missed, by reason.",
        blocked,
    )
}
