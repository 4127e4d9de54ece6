//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tetris_service_kit::logs::LogArgs;

use crate::inject::{DEFAULT_DRIVER, DEFAULT_MOUNT_PATH, Options, OptionsError};

/// Gives labeled pods their node's tensor store
#[derive(Debug, Parser)]
#[command(name = "tetris-webhook", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Arguments of logs.
    #[command(flatten)]
    pub logs: LogArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API server's requests until SIGTERM, and keep the certificates
    Run(Run),
    /// Print a pod, or an object with a template of pods, as it would be with the store; needs no cluster
    Patch(Patch),
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Where the API server's requests are served, over HTTPS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443")]
    pub listen: SocketAddr,
    /// Where /metrics, /healthz and /readyz are served, over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9461")]
    pub metrics: SocketAddr,
    /// The namespace of the service and of the secret
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: String,
    /// The Service by which the API server comes here
    #[arg(long, default_value = "tetris-webhook")]
    pub service: String,
    /// The Secret with the certificates; made when missing
    #[arg(long, default_value = "tetris-webhook-tls")]
    pub secret: String,
    /// The MutatingWebhookConfiguration that is told the certificate authority
    #[arg(long, default_value = "tetris-webhook")]
    pub configuration: String,
    /// What is injected.
    #[command(flatten)]
    pub injected: Injected,
}

/// Arguments of `patch`.
#[derive(Debug, Args)]
pub struct Patch {
    /// The object in JSON, such as `kubectl get -o json` prints; standard input without it
    pub file: Option<PathBuf>,
    /// As in a namespace with the label `tetris.dev/inject: "true"`
    #[arg(long)]
    pub labeled_namespace: bool,
    /// What is injected.
    #[command(flatten)]
    pub injected: Injected,
}

/// What is injected.
#[derive(Debug, Clone, Args)]
pub struct Injected {
    /// The name of the CSI driver
    #[arg(long, default_value = DEFAULT_DRIVER)]
    pub driver: String,
    /// Where containers find the store; the agent looks there by default
    #[arg(long, value_name = "PATH", default_value = DEFAULT_MOUNT_PATH)]
    pub mount_path: String,
}

impl Injected {
    /// The same, checked.
    pub fn options(&self) -> Result<Options, OptionsError> {
        Options::try_new(&self.driver, &self.mount_path)
    }
}
