//! Sandboxes of the processes: the rights of each, from the configuration.
//!
//! A process enters its sandbox before it starts a thread, and stays in it. So a path or a port that a later configuration names
//! is out of its reach until it is restarted.

use std::collections::BTreeSet;
use std::env::{split_paths, var_os};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tetris_sandbox::{Profile, Rights, SandboxError, SandboxStatus, SocketFamily};
use tetris_service_kit::traces::collector;

use crate::config::{Config, ConfigFile};
use crate::gpu_mirror::Implementation;
use crate::process::{Process, Switch};
use crate::processes::traces;

/// The sandbox of this process.
static ENTERED: OnceLock<SandboxStatus> = OnceLock::new();

/// Token and certificate of the pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The port of the API server, in a pod.
const API_SERVER_PORT: &str = "KUBERNETES_SERVICE_PORT";
/// Port of name servers, for answers that are too long for a datagram.
const NAME_SERVER: u16 = 53;
/// Names and addresses, and certificates that the system trusts.
const NETWORK_FILES: [&str; 10] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/lib/ssl",
];
/// Libraries of a driver and their state.
const DRIVER_FILES: [&str; 9] = [
    "/etc/ld.so.cache",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local",
    "/usr/share/nvidia",
    "/sys",
    "/run/nvidia-persistenced",
];

/// Enters the sandbox of `process`, unless `processes.sandbox` is "off". `file` is the configuration's. A restriction that the
/// kernel does not have is a warning.
///
/// # Errors
/// When the process has threads already, a path of `config` is missing, or the kernel refuses the rules.
pub fn enter(process: Process, config: &Config, file: Option<&Path>) -> Result<(), SandboxError> {
    let status = match config.file.processes.sandbox {
        Switch::Off => SandboxStatus::without("processes.sandbox is \"off\"")?,
        Switch::On => {
            // Made where a container did not; a failure to make it is the profile's to tell.
            drop(std::fs::create_dir_all(
                config.file.processes.directory_of(process),
            ));
            tetris_sandbox::enter(&profile(process, config, file))?
        }
    };
    for (restriction, because) in status.missing() {
        tracing::warn!(restriction, because, "this process is not fully sandboxed");
    }
    if status.has_capabilities() {
        let (capabilities, uid) = (&status.capabilities, status.uid);
        tracing::warn!(
            capabilities,
            uid,
            "this process needs no capability and has some: start it as another user"
        );
    }
    tracing::info!(
        seccomp = status.seccomp,
        landlock = status.landlock,
        "sandbox entered"
    );
    let _entered_once = ENTERED.set(status);
    Ok(())
}

/// The sandbox that this process entered.
pub fn entered() -> Option<&'static SandboxStatus> {
    ENTERED.get()
}

/// Rights of `process` by `config`, which was read from `file`.
pub fn profile(process: Process, config: &Config, file: Option<&Path>) -> Profile {
    let processes = &config.file.processes;
    let profile = Profile::default()
        .sockets(SocketFamily::Unix)
        .path(processes.directory_of(process), Rights::Write);
    let directory = file.and_then(Path::parent).map(|parent| {
        // The parent of a name alone is empty.
        if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        }
    });
    let profile = match directory {
        Some(directory) => profile.path(directory, Rights::Read),
        None => profile,
    };
    match process {
        // It mounts, and keeps its rights.
        Process::Volumes => profile,
        Process::Broker => cold(stores(profile, config), &config.file),
        Process::Cluster => network(profile, &config.file),
        Process::Mirror => devices(stores(profile, config), &config.file),
    }
}

/// The directories of stores, those above them, and learned state.
///
/// A rule for a directory does not hold for what is mounted at it later, but for what is mounted beneath it; and a store may be
/// removed and made again. So the rules are for the parents. The user of the process can write in the stores alone.
fn stores(profile: Profile, config: &Config) -> Profile {
    let mount = config
        .tables
        .mount
        .as_ref()
        .map(|mount| mount.path.as_path());
    let stores = config.file.stores.iter().map(|store| store.path.as_path());
    let mut directories = BTreeSet::new();
    for path in mount.into_iter().chain(stores) {
        let parent = path.parent().filter(|parent| *parent != Path::new("/"));
        directories.insert(parent.unwrap_or(path));
    }
    let permitted = directories.into_iter().fold(profile, |profile, directory| {
        profile.path(directory, Rights::Write)
    });
    match &config.file.state_dir {
        Some(directory) => permitted.path_if_present(directory, Rights::Write),
        None => permitted,
    }
}

/// The directory above that of the cold tier, which another process may make later. The user of this one can write in the tier alone.
fn cold(profile: Profile, file: &ConfigFile) -> Profile {
    match file.cold.as_ref().and_then(|cold| cold.path.parent()) {
        Some(parent) => profile.path_if_present(parent, Rights::Write),
        None => profile,
    }
}

/// The API server, and servers for other hosts and pods.
fn network(profile: Profile, file: &ConfigFile) -> Profile {
    let mut profile = profile
        .sockets(SocketFamily::Inet)
        .sockets(SocketFamily::Inet6)
        .path_if_present(SERVICE_ACCOUNT, Rights::Read);
    let files = NETWORK_FILES.into_iter().map(PathBuf::from);
    for path in files.chain(certificates()).chain(kubeconfigs()) {
        profile = profile.path_if_present(path, Rights::Read);
    }
    let network = &file.network;
    let addresses = [
        file.listen,
        network.metrics,
        network.probes,
        network.inventory,
    ];
    for address in addresses.into_iter().flatten() {
        profile = profile.listen_at(SocketAddr::port(&address));
    }
    let collector = collector().map(|collector| traces::port(&collector));
    let named = collector.map(|port| [port, NAME_SERVER]);
    let collector = named.into_iter().flatten();
    match (file.kubernetes.enabled, api_server_port()) {
        (false, _) => profile.connect_to(collector),
        (true, Some(port)) => profile.connect_to([port, NAME_SERVER].into_iter().chain(collector)),
        // A kubeconfig names where the server is.
        (true, None) => profile,
    }
}

/// Certificates that the environment names.
fn certificates() -> impl Iterator<Item = PathBuf> {
    let variables = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
        .into_iter()
        .filter_map(var_os);
    variables.flat_map(|value| split_paths(&value).collect::<Vec<_>>())
}

/// Directories of the kubeconfigs that a client looks for: certificates mostly lie beside them.
fn kubeconfigs() -> Vec<PathBuf> {
    let named = var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let files = match named {
        Some(paths) => split_paths(&paths).collect(),
        None => var_os("HOME")
            .map(|home| Path::new(&home).join(".kube/config"))
            .into_iter()
            .collect::<Vec<_>>(),
    };
    let there = files.into_iter().filter(|file| file.exists());
    there
        .filter_map(|file| file.parent().map(Path::to_owned))
        .collect()
}

/// The API server's port, where the pod's environment is the only one to say it.
fn api_server_port() -> Option<u16> {
    let port = var_os(API_SERVER_PORT)?.to_str()?.parse().ok();
    port.filter(|_| kubeconfigs().is_empty())
}

/// Devices of the GPU mirror, its driver's libraries, and its sockets.
fn devices(profile: Profile, file: &ConfigFile) -> Profile {
    let Some(mirror) = &file.gpu_mirror else {
        return profile;
    };
    let profile = match &mirror.socket_dir {
        Some(directory) => profile.path(directory, Rights::Write),
        None => profile,
    };
    if mirror.implementation == Implementation::Simulated {
        return profile;
    }
    let libraries = var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named = split_paths(&libraries).filter(|path| path.is_absolute());
    let libraries = DRIVER_FILES.into_iter().map(PathBuf::from).chain(named);
    let profile = libraries.fold(profile.drivers(), |profile, path| {
        profile.path_if_present(path, Rights::Read)
    });
    // The driver shares memory with its tools by names in there.
    let profile = profile.path_if_present("/dev/shm", Rights::Write);
    let devices = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let devices =
        devices.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"nvidia"));
    devices.fold(profile, |profile, entry| {
        profile.path_if_present(entry.path(), Rights::Device)
    })
}
