//! Checks of a configuration.

use tetris_reclaimer_core::Policy;

use super::{Config, ConfigError, ConfigFile, StoreConfig};
use crate::keep_warm::Declaration;

impl ConfigFile {
    /// Checks every field.
    pub fn check(self) -> Result<Config, ConfigError> {
        self.check_stores()?;
        let range = |field, found: u64, least: u64, most: u64| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            Err(ConfigError::value(
                field,
                format!("{least} to {most}"),
                found,
            ))
        };
        range("interval_secs", self.interval_secs, 1, 86_400)?;
        range("watermark_check_ms", self.watermark_check_ms, 10, 3_600_000)?;
        range("quarantine_hours", self.quarantine_hours, 0, 24 * 366)?;
        range(
            "reload_cost.bytes_per_sec",
            self.reload_cost.bytes_per_sec,
            1,
            u64::MAX,
        )?;
        range(
            "reload_cost.fixed_ms",
            self.reload_cost.fixed_ms,
            0,
            3_600_000,
        )?;
        range("scrub.bytes_per_sec", self.scrub.bytes_per_sec, 1, u64::MAX)?;
        range(
            "scrub.interval_hours",
            self.scrub.interval_hours,
            0,
            24 * 366,
        )?;
        for (field, found, least, most) in self.ingest.ranges() {
            range(field, found, least, most)?;
        }
        if let Some(mirror) = &self.gpu_mirror {
            mirror.check()?;
        }
        self.check_kubernetes()?;
        let tables = self.check_tables()?;
        let policy = Policy::try_new(self.policy.clone()).map_err(ConfigError::policy)?;
        for name in policy.config().stores.keys() {
            if !self.stores.iter().any(|store| store.name == *name) {
                let field = format!("policy.stores.{name}");
                return Err(ConfigError::value(&field, "the name of a store", name));
            }
        }
        let models = self.models.iter().map(|(name, what)| meaning(name, what));
        let models = models.collect::<Result<_, _>>()?;
        Ok(Config {
            policy,
            models,
            tables,
            file: self,
        })
    }

    fn check_stores(&self) -> Result<(), ConfigError> {
        if self.stores.is_empty() && !self.makes_stores() {
            let expected = "at least one store (flag --store NAME=PATH)";
            return Err(ConfigError::value("stores", expected, "none"));
        }
        check_each_store(&self.stores)
    }

    fn check_kubernetes(&self) -> Result<(), ConfigError> {
        if self.kubernetes.annotation.is_empty() || self.kubernetes.annotation.len() > 317 {
            let found = &self.kubernetes.annotation;
            let expected = "the key of an annotation";
            return Err(ConfigError::value("kubernetes.annotation", expected, found));
        }
        if self.kubernetes.enabled && self.node.as_deref().is_none_or(str::is_empty) {
            let expected =
                "the node's name, since kubernetes.enabled is set (flag --node, or NODE_NAME)";
            return Err(ConfigError::value("node", expected, "none"));
        }
        Ok(())
    }
}

/// Names that a store may have: they are labels of metrics and keys of tables.
const NAME_BYTES: usize = 63;

fn check_each_store(stores: &[StoreConfig]) -> Result<(), ConfigError> {
    for (index, store) in stores.iter().enumerate() {
        let field = |name: &str| format!("stores[{index}].{name}");
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = &store.name;
        if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(letters) {
            let expected = "1 to 63 letters, digits, `-`, `_` or `.`";
            return Err(ConfigError::value(&field("name"), expected, name));
        }
        if !store.path.is_absolute() {
            let found = store.path.display();
            return Err(ConfigError::value(
                &field("path"),
                "an absolute path",
                found,
            ));
        }
        let before = stores.iter().take(index);
        for other in before {
            if other.name == *name {
                let expected = "a name that no other store has";
                return Err(ConfigError::value(&field("name"), expected, name));
            }
            if other.path == store.path {
                let expected = format!("another path than that of store `{}`", other.name);
                let found = store.path.display();
                return Err(ConfigError::value(&field("path"), expected, found));
            }
        }
    }
    Ok(())
}

fn meaning(name: &str, what: &[String]) -> Result<(String, Vec<Declaration>), ConfigError> {
    let declarations = what.iter().enumerate().map(|(index, text)| {
        let field = format!("models.{name}[{index}]");
        match text.parse::<Declaration>() {
            Ok(Declaration::Name(_)) | Err(_) => Err(ConfigError::value(
                &field,
                "`manifest:` or `sha256:` and 64 hexadecimal digits",
                text,
            )),
            Ok(declaration) => Ok(declaration),
        }
    });
    Ok((name.to_owned(), declarations.collect::<Result<_, _>>()?))
}
