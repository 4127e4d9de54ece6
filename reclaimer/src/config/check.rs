//! Checks of a configuration. They find all mistakes, not the first.

use std::collections::BTreeMap;

use tetris_reclaimer_core::Policy;

use super::error::ConfigMistake;
use super::{Config, ConfigError, ConfigFile, StoreConfig};
use crate::field_error::FieldError;
use crate::http::not_of_this_machine;
use crate::keep_warm::Declaration;

impl ConfigFile {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`] with all mistakes.
    pub fn check(self) -> Result<Config, ConfigError> {
        self.checked().map_err(|errors| {
            let mistakes = errors.iter().map(ConfigMistake::of_field);
            ConfigError::Wrong(mistakes.collect())
        })
    }

    /// Checks every field. An error has all mistakes.
    pub(super) fn checked(self) -> Result<Config, Vec<FieldError>> {
        let mut errors = Vec::new();
        self.check_stores(&mut errors);
        self.check_ranges(&mut errors);
        if let Some(mirror) = &self.gpu_mirror {
            errors.extend(mirror.mistakes());
        }
        self.check_kubernetes(&mut errors);
        errors.extend(not_of_this_machine(self.listen));
        errors.extend(self.network.mistakes(self.kubernetes.enabled));
        errors.extend(self.processes.mistakes());
        let tables = self.check_tables(&mut errors);
        let policies = self.policy.mistakes().into_iter().map(|error| {
            let field = format!("policy.{}", error.field);
            FieldError::new(&field, error.expected, error.found)
        });
        errors.extend(policies);
        for name in self.policy.stores.keys() {
            if !self.stores.iter().any(|store| store.name == *name) {
                let field = format!("policy.stores.{name}");
                errors.push(FieldError::new(&field, "the name of a store", name));
            }
        }
        if let Some(cold) = &self.cold {
            let mount = self.mount.iter().map(|mount| mount.path.as_path());
            let stores = self.stores.iter().map(|store| store.path.as_path());
            errors.extend(cold.mistakes(mount.chain(stores)));
        }
        let models = self.check_models(&mut errors);
        match Policy::try_new(self.policy.clone()) {
            Ok(policy) if errors.is_empty() => Ok(Config {
                policy,
                models,
                tables,
                file: self,
            }),
            _ => Err(errors),
        }
    }

    fn check_ranges(&self, errors: &mut Vec<FieldError>) {
        let fields = [
            ("interval_secs", self.interval_secs, 1, 86_400),
            ("watermark_check_ms", self.watermark_check_ms, 10, 3_600_000),
            ("quarantine_hours", self.quarantine_hours, 0, 24 * 366),
            (
                "reload_cost.bytes_per_sec",
                self.reload_cost.bytes_per_sec,
                1,
                u64::MAX,
            ),
            (
                "reload_cost.fixed_ms",
                self.reload_cost.fixed_ms,
                0,
                3_600_000,
            ),
            ("scrub.bytes_per_sec", self.scrub.bytes_per_sec, 1, u64::MAX),
            (
                "scrub.interval_hours",
                self.scrub.interval_hours,
                0,
                24 * 366,
            ),
        ];
        for (field, found, least, most) in fields.into_iter().chain(self.ingest.ranges()) {
            if !(least..=most).contains(&found) {
                let expected = format!("{least} to {most}");
                errors.push(FieldError::new(field, expected, found));
            }
        }
    }

    fn check_stores(&self, errors: &mut Vec<FieldError>) {
        if self.stores.is_empty() && !self.makes_stores() {
            let expected = "at least one store (flag --store DIR)";
            errors.push(FieldError::new("stores", expected, "none"));
        }
        for (index, store) in self.stores.iter().enumerate() {
            let before = self.stores.get(..index).unwrap_or_default();
            check_store(index, store, before, errors);
        }
    }

    fn check_kubernetes(&self, errors: &mut Vec<FieldError>) {
        if self.kubernetes.annotation.is_empty() || self.kubernetes.annotation.len() > 317 {
            let found = &self.kubernetes.annotation;
            let expected = "the key of an annotation";
            errors.push(FieldError::new("kubernetes.annotation", expected, found));
        }
        if self.kubernetes.enabled && self.node.as_deref().is_none_or(str::is_empty) {
            let expected =
                "the node's name, since kubernetes.enabled is set (flag --node, or NODE_NAME)";
            errors.push(FieldError::new("node", expected, "none"));
        }
    }

    fn check_models(&self, errors: &mut Vec<FieldError>) -> BTreeMap<String, Vec<Declaration>> {
        let mut models = BTreeMap::new();
        for (name, texts) in &self.models {
            let mut declarations = Vec::new();
            for (index, text) in texts.iter().enumerate() {
                match text.parse::<Declaration>() {
                    Ok(Declaration::Name(_)) | Err(_) => errors.push(FieldError::new(
                        &format!("models.{name}[{index}]"),
                        "`manifest:` or `sha256:` and 64 hexadecimal digits",
                        text,
                    )),
                    Ok(declaration) => declarations.push(declaration),
                }
            }
            models.insert(name.clone(), declarations);
        }
        models
    }
}

/// Maximum length of a store's name. Names are labels of metrics and keys of tables.
const NAME_BYTES: usize = 63;

fn check_store(
    index: usize,
    store: &StoreConfig,
    before: &[StoreConfig],
    errors: &mut Vec<FieldError>,
) {
    let mut wrong = |field: &str, expected: String, found: &dyn std::fmt::Display| {
        let field = format!("stores[{index}].{field}");
        errors.push(FieldError::new(&field, expected, found));
    };
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = &store.name;
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(letters) {
        let expected = "1 to 63 letters, digits, `-`, `_` or `.`".to_owned();
        wrong("name", expected, name);
    }
    if !store.path.is_absolute() {
        let expected = "an absolute path".to_owned();
        wrong("path", expected, &store.path.display());
    }
    if before.iter().any(|other| other.name == *name) {
        let expected = "a name that no other store has".to_owned();
        wrong("name", expected, name);
    }
    if let Some(other) = before.iter().find(|other| other.path == store.path) {
        let expected = format!("another path than that of store `{}`", other.name);
        wrong("path", expected, &store.path.display());
    }
}
