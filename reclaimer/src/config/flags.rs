//! Flags of the command line that take precedence over the file.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Config, ConfigError, ConfigFile, NodeFlags, StoreConfig};

/// Source of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigFlags {
    /// Configuration file (TOML); read again on SIGHUP
    #[arg(long, value_name = "FILE", env = "TETRIS_NODE_CONFIG")]
    pub config: Option<PathBuf>,
    /// A store to look after, besides those of the file; can be repeated
    #[arg(long = "store", value_name = "NAME=PATH", value_parser = parse_store)]
    pub stores: Vec<StoreConfig>,
    /// Address of the HTTP server: metrics, health, status, inventory
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Name of this node
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node: Option<String>,
    /// Directory for learned state, instead of each store's own
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Seconds between two passes when nothing happens
    #[arg(long, value_name = "SECONDS")]
    pub interval: Option<u64>,
    /// Flags for the tables of a node of a cluster
    #[command(flatten)]
    pub tables: NodeFlags,
    /// Watch the API server for declarations of this node's pods
    #[arg(long)]
    pub kubernetes: bool,
}

fn parse_store(text: &str) -> Result<StoreConfig, String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err("expected NAME=PATH".to_owned());
    };
    Ok(StoreConfig {
        name: name.to_owned(),
        path: path.into(),
        namespaces: Vec::new(),
    })
}

impl ConfigFlags {
    /// The file, the flags over it, and all checked.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let mut file = match &self.config {
            Some(path) => ConfigFile::read(path)?,
            None => ConfigFile::default(),
        };
        file.stores.extend(self.stores.iter().cloned());
        file.listen = self.listen.or(file.listen);
        file.node = self.node.clone().or(file.node);
        file.state_dir = self.state_dir.clone().or(file.state_dir);
        file.interval_secs = self.interval.unwrap_or(file.interval_secs);
        self.tables.apply(&mut file);
        file.kubernetes.enabled |= self.kubernetes;
        file.check()
    }
}
