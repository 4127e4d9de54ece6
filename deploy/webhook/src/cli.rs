//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tetris_conventions::exit::{FAILED, USAGE, help};
use tetris_service_kit::command_help::{CompletionsArgs, ManArgs};
use tetris_service_kit::logs::LogArgs;

use crate::inject::{
    DEFAULT_DRIVER, DEFAULT_MOUNT_PATH, DEFAULT_PYTHON_PATH, Options, OptionsError, Scope,
};

/// Give labeled pods their node's tensor store
#[derive(Debug, Parser)]
#[command(name = "tetris-webhook", version, max_term_width = 100, after_help = help(&[FAILED, USAGE]))]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// Arguments of logs.
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Subcommands of `tetris-webhook`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API server's requests until SIGTERM, and keep the certificates
    Run(Run),
    /// Print a pod, or an object with a pod template, with the store injected; needs no cluster
    Patch(Patch),
    /// Print a script by which a shell completes this command
    ///
    /// bash: `tetris-webhook completions bash > /etc/bash_completion.d/tetris-webhook`. zsh: into a file
    /// `_tetris-webhook` of $fpath. fish: into ~/.config/fish/completions/tetris-webhook.fish.
    #[command(long_about)]
    Completions(CompletionsArgs),
    /// Write the manual pages of this command and its subcommands
    ///
    /// `tetris-webhook man DIR`, then `man DIR/tetris-webhook.1`; or into a folder of man(1), such as
    /// /usr/local/share/man/man1.
    #[command(long_about)]
    Man(ManArgs),
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Address of the server for the API server's requests, over HTTPS
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8443")]
    pub listen: SocketAddr,
    /// Address of the server of /metrics, /healthz and /readyz, over HTTP
    // Manifests of earlier commits name it --metrics.
    #[arg(
        long,
        alias = "metrics",
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:9461"
    )]
    pub metrics_listen: SocketAddr,
    /// Namespace of the Service and of the Secret
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        hide_env_values = true
    )]
    pub namespace: String,
    /// Name of the Service by which the API server reaches the webhook
    #[arg(long, value_name = "NAME", default_value = "tetris-webhook")]
    pub service: String,
    /// Name of the Secret with the certificates; it must exist, with the label app.kubernetes.io/name=tetris-webhook
    #[arg(long, value_name = "NAME", default_value = "tetris-webhook-tls")]
    pub secret: String,
    /// Name of the MutatingWebhookConfiguration that gets the certificate authority
    #[arg(long, value_name = "NAME", default_value = "tetris-webhook")]
    pub configuration: String,
    /// Arguments for the injected parts.
    #[command(flatten)]
    pub injected: Injected,
}

/// Arguments of `patch`.
#[derive(Debug, Args)]
pub struct Patch {
    /// File with the object in JSON, as `kubectl get -o json` prints it [default: standard input]
    pub file: Option<PathBuf>,
    /// Treat the namespace as labeled `tetris.dev/inject`, with this value [default: true, if the
    /// option is given without a value]
    #[arg(
        long,
        value_name = "VALUE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub labeled_namespace: Option<NamespaceLabel>,
    /// Arguments for the injected parts.
    #[command(flatten)]
    pub injected: Injected,
}

/// Value of the label of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamespaceLabel {
    /// Pods get the store
    True,
    /// Pods get the store and the Python package
    Python,
}

impl NamespaceLabel {
    /// The webhook that the API server asks about pods of such a namespace.
    pub fn scope(self) -> Scope {
        match self {
            Self::True => Scope::Namespace,
            Self::Python => Scope::PythonNamespace,
        }
    }
}

/// Arguments for the injected parts.
#[derive(Debug, Clone, Args)]
pub struct Injected {
    /// Name of the CSI driver
    #[arg(long, value_name = "NAME", default_value = DEFAULT_DRIVER)]
    pub driver: String,
    /// Path of the store in containers; the agent looks there by default
    #[arg(long, value_name = "PATH", default_value = DEFAULT_MOUNT_PATH)]
    pub mount_path: String,
    /// Path of the Python package in containers
    #[arg(long, value_name = "PATH", default_value = DEFAULT_PYTHON_PATH)]
    pub python_path: String,
}

impl Injected {
    /// The same, checked.
    pub fn options(&self) -> Result<Options, OptionsError> {
        Options::try_new(&self.driver, &self.mount_path, &self.python_path)
    }
}
