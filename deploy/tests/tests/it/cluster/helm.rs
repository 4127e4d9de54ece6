//! The chart on a cluster: installed as the last commit has it, upgraded, rolled back, removed, and installed into another namespace, by Helm.
//! Pods that map a model notice nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tetris_deploy_tests::chart::FOLDER;
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::files;
use tetris_deploy_tests::helm::{HELM, Helm, RELEASE};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::holders::Holders;
use crate::cluster::install::{
    APPLY, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
};

/// Namespace of another release than the usual one.
const ELSEWHERE: &str = "tetris-e2e-elsewhere";
/// Definitions, which stay when a release goes.
const DEFINITIONS: [&str; 3] = [
    "inferencefunctions.tetris.dev",
    "modelprofiles.tetris.dev",
    "models.tetris.dev",
];
/// Small, and quick to free what is not in use.
const DAEMON: &str = "
node:
  size: 640Mi
  config: {interval_secs: 2, policy: {store: {keep_alive_secs: 1, expiry: fixed, expire_after_secs: 2}}}
scaler: {enabled: true}
";
const UPGRADED: &str = "
node:
  size: 704Mi
  config: {interval_secs: 3, policy: {store: {keep_alive_secs: 1, expiry: fixed, expire_after_secs: 2}}}
scaler: {enabled: true, replicas: 1}
gateway: {enabled: true}
webhook: {enabled: true}
";

/// A release, which goes with this value.
struct Release<'a> {
    helm: &'a Helm,
    namespace: &'static str,
    images: String,
}

impl Release<'_> {
    /// Carries out a subcommand with the release and a chart.
    fn act(&self, action: &str, chart: &Path, values: &str) -> Result<()> {
        let chart = chart.display().to_string();
        let args = [action, RELEASE, &chart, "--namespace", self.namespace];
        let install = ["--create-namespace"]
            .iter()
            .filter(|_| action == "install");
        let args: Vec<_> = args.iter().chain(install).copied().collect();
        let waits = [&args[..], &["--wait", "--timeout", "4m"]].concat();
        let values = format!("{}{values}", self.images);
        self.helm.run(&waits, &values).map(drop)
    }

    fn roll_back(&self, revision: &str) -> Result<()> {
        let args = ["rollback", RELEASE, revision, "--namespace", self.namespace];
        let waits = [&args[..], &["--wait", "--timeout", "4m"]].concat();
        self.helm.command(&waits).map(drop)
    }

    fn uninstall(&self) -> Result<()> {
        let args = ["uninstall", RELEASE, "--namespace", self.namespace];
        self.helm.command(&args).map(drop)
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        // Of a release that a test removed already, this is an error.
        let _absent = self.uninstall();
        let definitions = DEFINITIONS.map(|name| format!("crd/{name}"));
        let namespace = format!("namespace/{}", self.namespace);
        let mut args = vec!["delete", "--ignore-not-found", "--timeout=240s", &namespace];
        args.extend(definitions.iter().map(String::as_str));
        if let Err(error) = Kubectl.run(&args) {
            skipped(&format!("removing the release: {error:#}"));
        }
    }
}

#[test]
fn a_release_is_installed_upgraded_rolled_back_and_removed() {
    on_the_cluster(|| {
        let Some(helm) = Helm::find() else {
            skipped(&format!("no helm, neither in {HELM} nor in the PATH"));
            return Ok(());
        };
        require_nothing()?;
        let release = Release {
            helm: &helm,
            namespace: SYSTEM,
            images: images()?,
        };
        follow(&release).map_err(|error| error.context(state(SYSTEM)))
    });
}

#[test]
fn a_release_in_another_namespace_works() {
    on_the_cluster(|| {
        let Some(helm) = Helm::find() else {
            skipped(&format!("no helm, neither in {HELM} nor in the PATH"));
            return Ok(());
        };
        require_nothing()?;
        let release = Release {
            helm: &helm,
            namespace: ELSEWHERE,
            images: images()?,
        };
        elsewhere(&release).map_err(|error| error.context(state(ELSEWHERE)))
    });
}

fn require_nothing() -> Result<()> {
    let mut absent = vec![
        "csi.tetris.dev",
        "namespace/tetris-system",
        "namespace/tetris-e2e",
        "namespace/tetris-e2e-elsewhere",
    ];
    absent.extend(DEFINITIONS);
    require_absent(&absent)
}

/// Images of the environment as values.
fn images() -> Result<String> {
    let components = [
        ("TETRIS_IMAGE_NODE", "tetris-node", "node"),
        ("TETRIS_IMAGE_SCALER", "tetris-scaler", "scaler"),
        ("TETRIS_IMAGE_GATEWAY", "tetris-gateway", "gateway"),
        ("TETRIS_IMAGE_WEBHOOK", "tetris-webhook", "webhook"),
        ("TETRIS_IMAGE_AGENT", "tetris-agent", "agent"),
    ];
    let values = components.map(|(variable, name, value)| {
        let (_, image) = image(variable, name);
        let (before, tag) = image.rsplit_once(':').unwrap_or((&image, "latest"));
        let registry = before
            .strip_suffix(name)
            .map(|path| path.trim_end_matches('/'));
        let registry = registry.with_context(|| {
            format!("{variable}: expected an image of the name {name}, found `{image}`")
        })?;
        anyhow::Ok((value, json!({"registry": registry, "tag": tag})))
    });
    let values = values.into_iter().collect::<Result<Vec<_>>>()?;
    let values: serde_json::Map<_, _> = values
        .into_iter()
        .map(|(name, image)| (name.to_owned(), image))
        .collect();
    Ok(format!("images: {}\n", Value::from(values)))
}

/// The chart of the last commit, in a folder.
fn earlier_chart() -> Result<TempDir> {
    let dir = TempDir::new()?;
    let path = format!("deploy/{FOLDER}");
    let mut archive = Command::new("git")
        .args(["archive", "HEAD", &path])
        .current_dir(files::deploy().join(".."))
        .stdout(Stdio::piped())
        .spawn()?;
    let from = archive.stdout.take().context("no output of git")?;
    let unpacked = Command::new("tar")
        .args(["-x", "-C"])
        .arg(dir.path())
        .stdin(from)
        .status()?;
    ensure!(
        archive.wait()?.success() && unpacked.success(),
        "cannot read {path} of the last commit"
    );
    Ok(dir)
}

fn follow(release: &Release<'_>) -> Result<()> {
    let earlier = earlier_chart()?;
    let chart = files::deploy().join(FOLDER);
    let earlier = earlier.path().join("deploy").join(FOLDER);
    release.act("install", &earlier, DAEMON)?;
    wait_for_daemons()?;
    require_interval(2)?;
    require_alone(release, &chart)?;
    Kubectl.with_objects(&APPLY, &Objects(vec![profile()]))?;
    let images = [image("TETRIS_IMAGE_AGENT", "tetris-agent")];
    let holders = Holders::new(&images)?;
    holders.hold("before", 0)?.require_shared()?;
    let leader = wait_for("a leader", || leader(SYSTEM))?;

    release.act("upgrade", &chart, UPGRADED)?;
    wait_for_daemons()?;
    require_interval(3)?;
    let authority = wait_for("the webhook's certificate", authority)?;
    holders.hold("upgraded", 1)?.require_shared()?;

    // Helm applies the same again, and leaves what the webhook and the scaler wrote into objects of the chart.
    release.act("upgrade", &chart, UPGRADED)?;
    let applied_again = self::authority()?;
    ensure!(applied_again == authority, "another authority");
    ensure!(
        !self::leader(SYSTEM)?.is_empty(),
        "{leader} no longer leads"
    );

    release.roll_back("1")?;
    wait_for_daemons()?;
    require_interval(2)?;
    let webhooks = Kubectl.run(&["get", "mutatingwebhookconfigurations", "-o", "name"])?;
    ensure!(!webhooks.contains("tetris"), "{webhooks}");
    holders.hold("back", 2)?.require_shared()?;
    Holders::require_undisturbed()?;
    holders.applied.remove()?;

    release.uninstall()?;
    let drivers = Kubectl.run(&["get", "csidrivers", "-o", "name"])?;
    ensure!(!drivers.contains("csi.tetris.dev"), "{drivers}");
    require_profile()?;
    // The definitions stayed, and are the next release's.
    release.act("install", &chart, DAEMON)?;
    wait_for_daemons()?;
    require_profile()?;
    release.uninstall()
}

/// Checks that Helm refuses a second release, whose objects of the cluster would be those of the first.
fn require_alone(release: &Release<'_>, chart: &Path) -> Result<()> {
    let chart = chart.display().to_string();
    let args = ["install", "second", &chart, "--namespace", "default"];
    let error = release.helm.run(&args, DAEMON);
    let error = error.err().context("Helm installs a second release")?;
    let error = error.to_string();
    ensure!(error.contains("release-name"), "{error}");
    Ok(())
}

fn elsewhere(release: &Release<'_>) -> Result<()> {
    let chart = files::deploy().join(FOLDER);
    release.act("install", &chart, UPGRADED)?;
    // By the account that the policies name, and the token that the daemon takes.
    wait_for("a leader", || leader(ELSEWHERE))?;
    wait_for("the inventory of the node", require_inventory)?;
    wait_for("the webhook's certificate", authority)?;
    let images = [image("TETRIS_IMAGE_AGENT", "tetris-agent")];
    let holders = Holders::new(&images)?;
    holders.hold("elsewhere", 0)?.require_shared()?;
    holders.applied.remove()?;
    release.uninstall()
}

/// A resource of the definitions that the chart keeps.
fn profile() -> Value {
    let profile = files::read("samples/scaler/all-minilm-l6-v2.profile.yaml");
    let mut profile = Objects::parse(&profile)
        .expect("the sample is YAML")
        .0
        .remove(0);
    profile["metadata"]["namespace"] = json!("default");
    profile
}

fn require_profile() -> Result<()> {
    let name = profile()["metadata"]["name"].clone();
    Kubectl
        .run(&["get", "modelprofile", "-n", "default", text(&name)])
        .map(drop)
}

/// Checks the interval in the configuration of the daemons.
fn require_interval(seconds: u32) -> Result<()> {
    let map = Kubectl.json(&["get", "configmap", "-n", SYSTEM, "tetris-node"])?;
    let file = text(&map["data"]["node.toml"]);
    let expected = format!("\"interval_secs\" = {seconds}\n");
    ensure!(
        file.contains(&expected),
        "expected {expected}, found {file}"
    );
    Ok(())
}

/// Holder of the scaler's lease.
fn leader(namespace: &str) -> Result<String> {
    let lease = Kubectl.json(&["get", "lease", "-n", namespace, "tetris-scaler"])?;
    let holder = lease["spec"]["holderIdentity"].as_str();
    let holder = holder.filter(|holder| !holder.is_empty());
    holder.map(str::to_owned).context("no replica leads")
}

/// The authority of the webhook's certificate, as the API server knows it.
fn authority() -> Result<String> {
    let name = ["get", "mutatingwebhookconfiguration", "tetris-webhook"];
    let configuration = Kubectl.json(&name)?;
    let mut authorities = list(&configuration["webhooks"])
        .iter()
        .map(|webhook| text(&webhook["clientConfig"]["caBundle"]).to_owned());
    let authority = authorities.next().unwrap_or_default();
    ensure!(
        !authority.is_empty() && authorities.all(|other| other == authority),
        "not every webhook has the authority"
    );
    Ok(authority)
}

/// Checks that the scaler reads the tensors of the daemon.
fn require_inventory() -> Result<()> {
    let selector = "app.kubernetes.io/name=tetris-scaler";
    let pods = Kubectl.json(&["get", "pods", "-n", ELSEWHERE, "-l", selector])?;
    let pods = list(&pods["items"]).iter();
    let pages = pods.map(|pod| {
        let name = text(&pod["metadata"]["name"]);
        tetris_deploy_tests::cluster::get(Kubectl, ELSEWHERE, name, 9461, "/metrics")
    });
    let pages = pages.collect::<Result<Vec<_>>>()?;
    let is_known = |page: &String| page.contains("tetris_scaler_inventory_nodes 1");
    ensure!(pages.iter().any(is_known), "no scaler knows the node");
    Ok(())
}

fn state(namespace: &str) -> String {
    let log = ["--all-containers", "--prefix", "--tail=30"];
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", namespace],
        &[
            &["logs", "-n", namespace, "daemonset/tetris-node"][..],
            &log,
        ]
        .concat(),
        &[
            &["logs", "-n", namespace, "deployment/tetris-scaler"][..],
            &log,
        ]
        .concat(),
        &["get", "events", "-n", "tetris-e2e"],
    ])
}
