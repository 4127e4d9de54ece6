//! Flags of the command line that take precedence over the file.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::read::ReadFile;
use super::{Config, ConfigError, NodeFlags, StoreConfig};

/// Source of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigFlags {
    /// Configuration file (TOML); processes that run read it again on SIGHUP
    #[arg(
        long,
        value_name = "FILE",
        env = "TETRIS_NODE_CONFIG",
        hide_env_values = true
    )]
    pub config: Option<PathBuf>,
    /// A store to look after, besides those of the file; can be repeated. A directory alone is the
    /// store `default`
    #[arg(long = "store", value_name = "[NAME=]DIR", value_parser = parse_store)]
    pub stores: Vec<StoreConfig>,
    /// Loopback address of the HTTP server (metrics, health, status, inventory), such as
    /// 127.0.0.1:9460 [default: the file's `listen`; without both there is no server]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Name of this node [default: the file's `node`]
    #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env_values = true)]
    pub node: Option<String>,
    /// Directory for learned state [default: the file's `state_dir`, else each store's own]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Time between two passes when nothing happens: 5m, or seconds as 60 [default: the file's
    /// `interval_secs`, else 60]
    #[arg(long, value_name = "DURATION", value_parser = tetris_units::duration::parse_seconds)]
    pub interval: Option<u64>,
    /// Flags for the tables of a node of a cluster
    #[command(flatten)]
    pub tables: NodeFlags,
    /// Watch the API server for declarations of this node's pods, even if the file turns it off
    #[arg(long)]
    pub kubernetes: bool,
}

/// Name of a store given as a directory alone.
const DEFAULT_NAME: &str = "default";

/// A store without a directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a directory, or NAME=DIR")]
struct NoDirectory;

/// Parses `NAME=DIR`, or `DIR` as the command `tetris` takes it. A name has no slash.
fn parse_store(text: &str) -> Result<StoreConfig, NoDirectory> {
    let named = text.split_once('=');
    let (name, path) = named
        .filter(|(name, _)| !name.contains('/'))
        .unwrap_or((DEFAULT_NAME, text));
    if path.is_empty() {
        return Err(NoDirectory);
    }
    Ok(StoreConfig {
        name: name.to_owned(),
        path: path.into(),
        namespaces: Vec::new(),
        own: false,
    })
}

impl ConfigFlags {
    /// The file, the flags over it, and all checked.
    ///
    /// # Errors
    /// When the file cannot be read, or file and flags have mistakes.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let mut read = match &self.config {
            Some(path) => ReadFile::read(path)?,
            None => ReadFile::default(),
        };
        let file = &mut read.file;
        file.stores.extend(self.stores.iter().cloned());
        file.listen = self.listen.or(file.listen);
        file.node = self.node.clone().or(file.node.take());
        file.state_dir = self.state_dir.clone().or(file.state_dir.take());
        file.interval_secs = self.interval.unwrap_or(file.interval_secs);
        self.tables.apply(file);
        file.kubernetes.enabled |= self.kubernetes;
        read.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_directory_with_or_without_a_name() {
        let parsed = |text: &str| {
            let store = parse_store(text)?;
            Ok((store.name, store.path.display().to_string()))
        };
        let of = |name: &str, path: &str| Ok((name.to_owned(), path.to_owned()));
        assert_eq!(parsed("a=/run/a"), of("a", "/run/a"));
        assert_eq!(
            parsed("/run/tetris/store"),
            of("default", "/run/tetris/store")
        );
        assert_eq!(parsed("/run/a=b"), of("default", "/run/a=b"));
        let refused: Result<_, NoDirectory> = parsed("a=");
        assert!(refused.is_err());
        assert!(parsed("").is_err());
    }
}
