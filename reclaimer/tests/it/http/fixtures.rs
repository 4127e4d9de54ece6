//! Reports as the daemon makes them, and a router over them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tetris_gpu_device::{DeviceMode, DeviceUuid};
use tetris_gpu_server::residency::{DeviceId, TenantId, Usage};
use tetris_gpu_server::{Counters, DeviceReport, Report, TenantReport};
use tetris_node::gpu_mirror::{GpuMirrorStatus, Implementation};
use tetris_node::http::{Health, HttpState, PageSource as _, Pages};
use tetris_node::keep_warm::Freshness;
use tetris_node::metrics::{Metrics, ProcessSample};
use tetris_node::process::Process;
use tetris_node::report::process_report::Usage as ProcessUsage;
use tetris_node::report::{
    Amount, ForeignStatus, HolderCounts, Loads, ModelStatus, MountStatus, NodeStatus, ObjectState,
    PagesStatus, PassReport, RecordStatus, ShortfallStatus, SmallPagesStatus, StorePass,
    StoreStatus, StoredObject, Trigger, VolumeStatus,
};
use tetris_reclaimer_core::{Goal, KeptBytes, Reason};
use tetris_store_layout::{Digest, ObjectId};
use tokio::sync::watch;
use tower::ServiceExt as _;

/// A daemon with the stores `a` and `b`.
pub struct Daemon {
    pub shared: HttpState,
    pub passes: watch::Sender<Option<Arc<NodeStatus>>>,
    pub router: Router,
}

impl Daemon {
    pub fn new() -> Self {
        let (passes, status) = watch::channel(None);
        let shared = HttpState {
            metrics: Arc::new(Metrics::new(["a", "b"].map(str::to_owned))),
            status,
            health: Arc::new(Health::new(Duration::from_mins(1))),
        };
        Self {
            router: Pages::new(shared.clone()).all(),
            shared,
            passes,
        }
    }

    /// One whose pass ended with this.
    pub fn with(status: NodeStatus) -> Self {
        let daemon = Self::new();
        daemon.observed(status);
        daemon
    }

    /// And that has a GPU mirror.
    pub fn with_mirror(self, status: GpuMirrorStatus) -> Self {
        self.shared.metrics.show_gpu_mirror(move || status.clone());
        self
    }

    /// And that is several processes, of which one uses this.
    pub fn with_processes(self) -> Self {
        let sample = ProcessSample {
            process: Process::Volumes,
            usage: Some(ProcessUsage::default()),
        };
        self.shared.metrics.show_processes(move || vec![sample]);
        self
    }

    pub fn observed(&self, status: NodeStatus) {
        self.passes.send_replace(Some(Arc::new(status)));
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[]).await
    }

    pub async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
        ask(&self.router, method, path, headers).await
    }
}

/// Asks a router for a page.
pub async fn ask(router: &Router, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    Answer::of(router.clone().oneshot(request).await.unwrap()).await
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: axum::body::Bytes,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// The stores `a` and `b` on one mount.
pub fn node() -> NodeStatus {
    NodeStatus {
        node: Some("node-1".to_owned()),
        version: "1.2.3",
        started_ms: 1_000,
        observed_ms: 1_700_000_000_500,
        dry_run: false,
        declarations: Freshness::Current,
        declaring_pods: 3,
        volumes: Some(VolumeStatus {
            idmapped: 4,
            plain: 1,
            plain_because: None,
        }),
        processes: Vec::new(),
        holder_counts: HolderCounts::Complete,
        kept: vec![tetris_node::report::KeptStatus {
            store: "shared".to_owned(),
            name: "llama".to_owned(),
            state: "pulling",
            done_bytes: 30,
            total_bytes: 90,
            bytes_per_second: 15,
        }],
        mounts: vec![MountStatus {
            stores: vec!["b".to_owned(), "a".to_owned()],
            capacity_bytes: 1 << 30,
            free_bytes: 1 << 20,
            inodes: 1_000,
            inodes_free: 900,
            arrivals: 2,
            pages: Some(PagesStatus {
                of: "new-file",
                looked_at_bytes: 4 << 20,
                large_bytes: 1 << 20,
                small_because: Some(SmallPagesStatus {
                    name: "memory",
                    text: "in pieces".to_owned(),
                }),
            }),
        }],
        stores: vec![store("a"), store("b")],
        gpus: Vec::new(),
        shortfalls: vec![shortfall(&["a", "b"], Goal::LowWatermark, 700)],
    }
}

/// A mirror of the stores `a`, which has a quota, and `b`, on a device that works and one that does
/// not.
pub fn mirror() -> GpuMirrorStatus {
    let device = |number: u8, lost: Option<&str>| DeviceReport {
        id: DeviceId(number.into()),
        uuid: DeviceUuid([number; 16]),
        name: "device".to_owned(),
        mode: DeviceMode::Shared,
        total_bytes: 2000,
        limit_bytes: 1200,
        usage: Usage::default(),
        transfer_bytes_per_sec: Some(13),
        templates: Vec::new(),
        leases: 0,
        group_bytes: 2 << 20,
        link_bytes_per_sec: Some(25),
        switch: Some("a".to_owned()),
        light_bytes: 70,
        spare_bytes: 80,
        transfer_bytes: 90,
        pinned_bytes: 300,
        unregistered: None,
        lost: lost.map(str::to_owned),
        unanswered_ms: None,
    };
    let mut works = device(1, None);
    works.usage = Usage {
        capacity_bytes: 1000,
        created_bytes: 800,
        lingering_bytes: 30,
        live_bytes: 700,
        held_bytes: 600,
        kept_bytes: 250,
        models: 5,
        held_models: 4,
    };
    works.leases = 6;
    works.mode = DeviceMode::Exclusive;
    works.unanswered_ms = Some(7_000);
    let tenant = |number, quota_bytes| TenantReport {
        tenant: TenantId(number),
        waiting: 3,
        quota_bytes,
        chunk_bytes: vec![(works.uuid, 400)],
    };
    let counters = Counters {
        refused: 9,
        refused_no_room: 7,
        direct_bytes: 50,
        staged_bytes: 60,
        across_bytes: 70,
        awaited_chunks: 13,
        prefetches: 14,
        registrations: 11,
        reused_registrations: 12,
        failed_transfers: 2,
        ..Counters::default()
    };
    GpuMirrorStatus {
        implementation: Implementation::Cuda,
        running: true,
        reason: None,
        missing_devices: 1,
        report: Report {
            counters,
            connections: 8,
            tenants: vec![tenant(0, Some(500)), tenant(1, None), tenant(2, None)],
            devices: vec![works, device(2, Some("gone"))],
        },
        stores: [(0, "a"), (1, "b")]
            .map(|(number, name)| (TenantId(number), name.to_owned()))
            .into(),
    }
}

pub fn shortfall(stores: &[&str], goal: Goal, missing_bytes: u64) -> ShortfallStatus {
    let kept = KeptBytes {
        held_bytes: 4,
        protected_bytes: 3,
        young_bytes: 2,
        guaranteed_bytes: 1,
    };
    let stores = stores.iter().map(|&s| s.to_owned()).collect();
    ShortfallStatus::new(stores, goal, missing_bytes, &kept)
}

pub fn store(name: &str) -> StoreStatus {
    let amount = |objects, bytes| Amount { objects, bytes };
    StoreStatus {
        name: name.to_owned(),
        path: format!("/stores/{name}").into(),
        id: Some("0123".to_owned()),
        error: None,
        inodes: 26,
        limit_bytes: Some(1 << 40),
        limit_inodes: Some(5_000),
        guaranteed_bytes: 3_000,
        guaranteed_inodes: 30,
        records: RecordStatus {
            bytes: 50,
            files: 7,
            limit_bytes: 1 << 20,
            limit_files: 100,
            not_followed: 3,
            quarantined: 4,
        },
        device: (0, 42),
        objects: object_ids(3),
        states: BTreeMap::from([
            (ObjectState::Held, amount(2, 200)),
            (ObjectState::Idle, amount(1, 50)),
        ]),
        holders: 5,
        saved_bytes: 300,
        sharing_factor: 2.5,
        models: vec![
            model(1, 100, 100, 60),
            model(2, 100, 30, 0),
            model(3, 100, 0, 0),
        ],
        foreign: vec![ForeignStatus {
            path: "/stores/a/core".to_owned(),
            reason: "not a name of the store".to_owned(),
        }],
    }
}

/// Objects as a folder lists them: in no order.
pub fn object_ids(count: u64) -> Arc<[StoredObject]> {
    let numbers = (0..count).rev();
    numbers
        .map(|number| StoredObject {
            id: ObjectId(Digest::of(&number.to_le_bytes())),
            inode: number,
            allocated_bytes: 4096,
        })
        .collect()
}

pub fn model(number: u64, total_bytes: u64, resident_bytes: u64, held_bytes: u64) -> ModelStatus {
    ModelStatus {
        id: format!("manifest-{number:064x}"),
        total_bytes,
        resident_bytes,
        held_bytes,
        last_use_ms: 1_600_000_000_000 + number,
        warm: number == 1,
    }
}

pub fn pass(store: &str) -> PassReport {
    let freed = Amount {
        objects: 3,
        bytes: 4096,
    };
    PassReport {
        trigger: Trigger::Watermark,
        duration: Duration::from_millis(20),
        stores: vec![StorePass {
            store: store.to_owned(),
            freed: BTreeMap::from([(Reason::Cost, freed)]),
            kept_by_lock: 1,
            records_removed: 2,
            loads: Loads {
                hits: 5,
                hit_bytes: 500,
                misses: 6,
                missed_bytes: 600,
            },
        }],
        errors: Vec::new(),
    }
}
