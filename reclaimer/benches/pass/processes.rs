//! The idle processes of a node, each as its own user.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{setfsgid, setfsuid};
use serde_json::{Value, json};
use tetris_store_layout::{CreateOptions, Mapping, Store};
use tokio::runtime::Runtime;

use crate::fill::fill;
use crate::idle::INTERVAL_SECS;
use crate::running::{BROKER_USER, Processes};
use crate::usage::{cpu_seconds, memory_mb, share_mb};
use tetris_test_support::api::Api;

/// Half of it bears the inodes: 284,359, of which a store gets 60 %.
const RESERVE_BYTES: u64 = 512 << 20;
const NAMES: [&str; 3] = ["volumes", "broker", "cluster"];

/// A directory of private mounts, which end with this.
struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    fn new() -> Result<Self> {
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        let ground = Self {
            dir: tempfile::tempdir()?,
        };
        for (place, flags) in [
            ("kubelet", MsFlags::empty()),
            ("tetris", MsFlags::empty()),
            ("kubelet", MsFlags::MS_SHARED),
            ("tetris", MsFlags::MS_SHARED),
        ] {
            let path = ground.path(place);
            std::fs::create_dir_all(&path)?;
            let kind = flags.is_empty().then_some("tmpfs");
            mount(kind, &path, kind, flags, none)?;
        }
        Ok(ground)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn stores(&self) -> PathBuf {
        self.path("tetris/stores")
    }

    fn configuration(&self) -> String {
        format!(
            "node = \"bench\"\ninterval_secs = {INTERVAL_SECS}\nkubernetes.enabled = true\n\
             [network]\nmetrics = \"127.0.0.1:0\"\nprobes = \"127.0.0.1:0\"\n\
             [mount]\nuser = {BROKER_USER}\nreserve_bytes = {RESERVE_BYTES}\npath = \"{stores}\"\n\
             [csi]\nkubelet_dir = \"{kubelet}\"\n\
             [csi.per_namespace]\npath = \"{stores}/{{namespace}}\"\n",
            stores = self.stores().display(),
            kubelet = self.path("kubelet").display(),
        )
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for place in ["tetris/stores", "tetris", "kubelet"] {
            let _unmounted = umount2(&self.path(place), MntFlags::MNT_DETACH);
        }
    }
}

/// A namespace's store of 100,000 objects, whose files are the broker's.
fn filled(path: PathBuf) -> Result<Vec<Mapping>> {
    // The ids are those of the thread.
    let work = std::thread::spawn(move || {
        setfsgid(BROKER_USER.into());
        setfsuid(BROKER_USER.into());
        fill(&Store::create(path, &CreateOptions::default())?)
    });
    work.join()
        .map_err(|_panicked| anyhow::anyhow!("the store could not be filled"))?
}

/// Number of objects of the first store in an answer with the page `/status`, whatever their state.
fn objects_seen(answer: &str) -> Option<u64> {
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let status: Value = serde_json::from_str(body).ok()?;
    let states = status["stores"][0]["states"].as_object()?;
    let counts = states.values().map(|state| state["objects"].as_u64());
    counts.sum()
}

/// Watches them over this time. Null for 0, and for another user than root.
pub fn idle(secs: u64) -> Result<Value> {
    if secs == 0 {
        return Ok(Value::Null);
    }
    if !nix::unistd::geteuid().is_root() {
        println!("processes of a node: left out, they need root");
        return Ok(Value::Null);
    }
    let ground = Ground::new()?;
    let (api, runtime) = (Api::new(), Runtime::new()?);
    let server = runtime.block_on(api.serve());
    let kubeconfig = ground.path("kubeconfig");
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
    );
    std::fs::write(&kubeconfig, text)?;
    let program = Path::new(env!("CARGO_BIN_EXE_tetris-node"));
    let mut processes = Processes::new(ground.dir.path(), program, &ground.configuration());
    let kubeconfig = kubeconfig.display().to_string();
    for name in NAMES {
        let limit = ("TETRIS_MEMORY_LIMIT", "8GiB");
        processes.start(name, &[limit, ("KUBECONFIG", &kubeconfig)]);
    }
    let stores = ground.stores();
    processes.eventually("the stores' tmpfs", |this| {
        stores.is_dir() && this.page("broker", "/healthz").contains("200 OK")
    });
    let mapped = filled(stores.join(format!("green.{}", api.make("green"))))?;
    let objects = crate::MODELS * crate::OBJECTS_PER_MODEL;
    // A pass may have come meanwhile, and the next one comes after the interval.
    std::thread::sleep(Duration::from_secs(INTERVAL_SECS));
    processes.eventually("a pass over the store", |this| {
        objects_seen(&this.page("broker", "/status")) == Some(objects)
    });
    std::thread::sleep(Duration::from_secs(5));
    let ids = NAMES.map(|name| processes.id(name));
    let before = ids.map(cpu_seconds);
    std::thread::sleep(Duration::from_secs(secs));
    let mut readings = Vec::new();
    let (mut percents, mut shares) = (0.0, 0.0);
    for ((name, id), before) in NAMES.into_iter().zip(ids).zip(before) {
        let percent = (cpu_seconds(id)? - before?) / secs as f64 * 100.0;
        let (share, resident) = (share_mb(id)?, memory_mb(id, "VmRSS:")?);
        println!(
            "idle process over {secs} s, {name:<22} {percent:>6.3} % of a core, {share:.1} MB, {resident:.1} MB resident"
        );
        percents += percent;
        shares += share;
        readings.push(json!({
            "name": name, "core_percent": percent, "share_mb": share, "resident_mb": resident,
        }));
    }
    println!(
        "idle processes over {secs} s, all                   {percents:>6.3} % of a core, {shares:.1} MB"
    );
    // The largest pages, then a pass, after which pages are dropped.
    for page in ["/inventory/objects", "/status"] {
        let answer = processes.page("broker", page);
        ensure!(answer.contains("200 OK"), "{page}: {answer}");
    }
    std::thread::sleep(Duration::from_secs(INTERVAL_SECS + 5));
    let mut after = 0.0;
    for id in ids {
        after += share_mb(id).context("after the pages")?;
    }
    println!("idle processes after an inventory: {after:.1} MB");
    drop(mapped);
    Ok(
        json!({"each": readings, "core_percent": percents, "share_mb": shares, "share_after_poll_mb": after}),
    )
}
