//! Policies: their form in configuration files, and their checks.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use tetris_store_layout::RecordUse;
use thiserror::Error;

use crate::space::Space;

/// Reclaim policy in the form of a configuration file. Omitted fields have their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// Used share of a mount above which the planner frees objects, in percent of its capacity.
    pub high_watermark_percent: u32,
    /// Used share down to which the planner frees objects, in percent of the mount's capacity.
    pub low_watermark_percent: u32,
    /// Policy of stores without an entry in `stores`.
    pub store: StorePolicy,
    /// Number of namespaces for whose guarantees room is kept back: those with their own store
    /// on the node, and others that may arrive.
    pub guaranteed_namespaces: u32,
    /// Policies of stores by name. Omitted fields have their defaults, not the values of `store`.
    pub stores: BTreeMap<String, StorePolicy>,
    /// Policies of namespaces' own stores, by the namespace.
    pub namespaces: BTreeMap<String, StorePolicy>,
}

/// The policy of one store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorePolicy {
    /// Keep-alive window in seconds: objects used within it are not freed, except to make room for
    /// a waiting load (Tetris 3.4; the window avoids oscillation).
    #[serde(with = "tetris_units::duration::seconds")]
    pub keep_alive_secs: u64,
    /// Expiry of unused objects while there is room.
    pub expiry: Expiry,
    /// With `expiry = "fixed"`: time without use after which an object expires, in seconds.
    #[serde(with = "tetris_units::duration::seconds")]
    pub expire_after_secs: u64,
    /// With `expiry = "learned"`: parameters for learning each model's window.
    pub learned: LearnedKeepAlive,
    /// Eviction order when there is no room.
    pub order: Order,
    /// Number of bytes that this store can have at any time: other stores' needs do not take them,
    /// and they are kept free while the store has less.
    #[serde(with = "tetris_units::size")]
    pub guaranteed_bytes: u64,
    /// The same in percent of the mount, where `guaranteed_bytes` is 0. By default
    /// [`NAMESPACE_GUARANTEED_PERCENT`](crate::NAMESPACE_GUARANTEED_PERCENT) for a namespace's own
    /// store, and nothing for others.
    pub guaranteed_percent: Option<u32>,
    /// Upper limit of this store in bytes, even if more memory is free.
    #[serde(with = "tetris_units::size::optional")]
    pub limit_bytes: Option<u64>,
    /// The same in percent of the mount, which also limits inodes. By default
    /// [`NAMESPACE_LIMIT_PERCENT`](crate::NAMESPACE_LIMIT_PERCENT) for a namespace's own store, and
    /// none for others.
    pub limit_percent: Option<u32>,
    /// Upper limit of the store's inodes: objects, records and folders.
    pub limit_inodes: Option<u64>,
    /// Of these, bytes that its records are kept to; without it [`DEFAULT_RECORD_BYTES`], or a
    /// quarter of its limit where that is less.
    #[serde(with = "tetris_units::size::optional")]
    pub record_bytes: Option<u64>,
    /// Records that it may have, each of which takes an inode; a quarter of its limit of inodes where
    /// that is less.
    pub record_files: u64,
}

/// Default limit of a store's records in bytes: those of a thousand models of some hundred tensors.
pub const DEFAULT_RECORD_BYTES: u64 = 128 << 20;
const DEFAULT_RECORD_FILES: u64 = 32_768;
/// One namespace at its limit and seven others at their guarantees fill the mount up to the high
/// watermark: 60 % and 7 x 5 % are 95 %.
const DEFAULT_GUARANTEED_NAMESPACES: u32 = 8;
const MOST_GUARANTEED_NAMESPACES: u32 = 10_000;
/// Fewer would not hold the folders of a store and one ordinary model.
const LEAST_INODES: u64 = 1024;
/// Less would not hold the records of one ordinary model.
const LEAST_RECORD_BYTES: u64 = 1 << 20;
const LEAST_RECORD_FILES: u64 = 64;

/// Expiry of unused objects while there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expiry {
    /// Never: objects stay until their room is needed.
    Never,
    /// After a fixed time (Tetris 3.4).
    Fixed,
    /// After a time learned for each model from its idle times (Shahrad et al., ATC 2020).
    Learned,
}

impl Expiry {
    /// All rules of expiry.
    pub const ALL: [Self; 3] = [Self::Never, Self::Fixed, Self::Learned];

    /// Its name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Fixed => "fixed",
            Self::Learned => "learned",
        }
    }

    /// Returns true if each model has its own window.
    pub(crate) fn is_per_model(self) -> bool {
        match self {
            Self::Never | Self::Fixed => false,
            Self::Learned => true,
        }
    }
}

/// Eviction order when there is no room. Its behavior is in `order.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Least recently used first (Tetris 3.4, GPU-FaaS III-D).
    Lru,
    /// Least valuable first: Greedy-Dual with size, frequency and reload cost (Fuerst and Sharma,
    /// "FaasCache", ASPLOS 2021). Torpor 5.4 pursues the same goal with two classes of models.
    GreedyDual,
}

/// Parameters for learning a model's keep-alive window from its histogram of idle times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnedKeepAlive {
    /// Window while the histogram does not apply, in seconds.
    #[serde(with = "tetris_units::duration::seconds")]
    pub standard_secs: u64,
    /// Minimum number of idle periods before the histogram applies.
    pub min_idle_periods: u32,
    /// Percentile of idle times at which the window begins: the model is not expected before.
    pub head_percent: u32,
    /// Percentile of idle times at which the window ends: the model is not expected after.
    pub tail_percent: u32,
    /// Margin of the window at both ends, in percent.
    pub margin_percent: u32,
    /// Share of idle times out of bounds above which the standard window applies, in percent.
    pub out_of_bounds_percent: u32,
    /// Coefficient of variation of the bin counts below which the standard window applies.
    pub min_variation: f64,
}

impl LearnedKeepAlive {
    /// Values of the paper, which gives none for `min_idle_periods` and `out_of_bounds_percent`.
    pub const PAPER: Self = Self {
        standard_secs: 4 * 3600,
        min_idle_periods: 10,
        head_percent: 5,
        tail_percent: 99,
        margin_percent: 10,
        out_of_bounds_percent: 50,
        min_variation: 2.0,
    };
}

impl Default for LearnedKeepAlive {
    fn default() -> Self {
        Self::PAPER
    }
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self {
            keep_alive_secs: 60,
            expiry: Expiry::Never,
            expire_after_secs: 600,
            learned: LearnedKeepAlive::PAPER,
            order: Order::GreedyDual,
            guaranteed_bytes: 0,
            guaranteed_percent: None,
            limit_bytes: None,
            limit_percent: None,
            limit_inodes: None,
            record_bytes: None,
            record_files: DEFAULT_RECORD_FILES,
        }
    }
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            high_watermark_percent: 95,
            low_watermark_percent: 85,
            store: StorePolicy::default(),
            guaranteed_namespaces: DEFAULT_GUARANTEED_NAMESPACES,
            stores: BTreeMap::new(),
            namespaces: BTreeMap::new(),
        }
    }
}

/// The reason a configuration is not a valid policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: expected {expected}, found {found}")]
pub struct PolicyError {
    /// Name of the field, as in the configuration.
    pub field: String,
    /// The valid values.
    pub expected: String,
    /// The configured value.
    pub found: String,
}

impl PolicyError {
    fn new(field: &str, expected: &dyn Display, found: &dyn Display) -> Self {
        Self {
            field: field.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    fn within(mut self, table: &str) -> Self {
        self.field = format!("{table}.{}", self.field);
        self
    }
}

impl PolicyConfig {
    /// Mistakes of all fields.
    pub fn mistakes(&self) -> Vec<PolicyError> {
        let mut errors = Vec::new();
        let (low, high) = (self.low_watermark_percent, self.high_watermark_percent);
        if !(1..=100).contains(&high) {
            let field = "high_watermark_percent";
            errors.push(PolicyError::new(field, &"1 to 100", &high));
        }
        if low > high {
            errors.push(PolicyError::new(
                "low_watermark_percent",
                &format_args!("at most high_watermark_percent, which is {high}"),
                &low,
            ));
        }
        let within = |table: &str, policy: &StorePolicy| {
            let mistakes = policy.mistakes().into_iter();
            let mistakes = mistakes.map(|error| error.within(table));
            mistakes.collect::<Vec<_>>()
        };
        errors.extend(within("store", &self.store));
        for (name, store) in &self.stores {
            errors.extend(within(&format!("stores.{name}"), store));
        }
        for (name, store) in &self.namespaces {
            errors.extend(within(&format!("namespaces.{name}"), store));
        }
        if self.guaranteed_namespaces > MOST_GUARANTEED_NAMESPACES {
            let field = "guaranteed_namespaces";
            let expected = format_args!("at most {MOST_GUARANTEED_NAMESPACES}");
            let found = self.guaranteed_namespaces;
            errors.push(PolicyError::new(field, &expected, &found));
        }
        errors
    }
}

/// A checked policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    config: PolicyConfig,
}

impl Policy {
    /// Checks a configuration.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] with the first of its [mistakes](PolicyConfig::mistakes).
    pub fn try_new(config: PolicyConfig) -> Result<Self, PolicyError> {
        match config.mistakes().into_iter().next() {
            None => Ok(Self { config }),
            Some(error) => Err(error),
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &PolicyConfig {
        &self.config
    }

    /// Returns the policy of the store of this name in the configuration.
    pub fn of(&self, store: &str) -> &StorePolicy {
        self.of_owned(store, None)
    }

    /// Returns the policy of a store, which is the own one of `namespace` if there is one.
    pub fn of_owned(&self, store: &str, namespace: Option<&str>) -> &StorePolicy {
        let named = match namespace {
            Some(namespace) => self.config.namespaces.get(namespace),
            None => self.config.stores.get(store),
        };
        named.unwrap_or(&self.config.store)
    }
}

impl Default for Policy {
    /// The default configuration, which a test checks.
    fn default() -> Self {
        Self {
            config: PolicyConfig::default(),
        }
    }
}

/// Maximum configurable time in seconds: a year. A longer time is a mistake in the unit.
const MAX_SECS: u64 = 366 * 86_400;

impl StorePolicy {
    /// Limits of the records of a store that may have `limit` in all.
    pub fn record_limits(&self, limit: Space) -> RecordUse {
        let bytes = DEFAULT_RECORD_BYTES.min(limit.bytes / 4);
        RecordUse {
            bytes: self.record_bytes.unwrap_or(bytes),
            files: self.record_files.min(limit.inodes / 4),
        }
    }

    fn mistakes(&self) -> Vec<PolicyError> {
        let mut errors = Vec::new();
        errors.extend(secs("keep_alive_secs", self.keep_alive_secs, 0));
        match self.expiry {
            Expiry::Never => {}
            Expiry::Fixed => errors.extend(secs(
                "expire_after_secs",
                self.expire_after_secs,
                self.keep_alive_secs,
            )),
            Expiry::Learned => {
                let learned = self.learned.mistakes(self.keep_alive_secs).into_iter();
                errors.extend(learned.map(|error| error.within("learned")));
            }
        }
        if let Some(limit) = self
            .limit_bytes
            .filter(|limit| *limit < self.guaranteed_bytes)
        {
            let least = self.guaranteed_bytes;
            let expected = format_args!("at least guaranteed_bytes, which is {least}");
            errors.push(PolicyError::new("limit_bytes", &expected, &limit));
        }
        if let (Some(_), Some(found)) = (self.limit_bytes, self.limit_percent) {
            let expected = "nothing beside limit_bytes";
            errors.push(PolicyError::new("limit_percent", &expected, &found));
        }
        if let (1.., Some(found)) = (self.guaranteed_bytes, self.guaranteed_percent) {
            let expected = "nothing beside guaranteed_bytes";
            errors.push(PolicyError::new("guaranteed_percent", &expected, &found));
        }
        if let Some(found) = self.limit_percent.filter(|part| !(1..=100).contains(part)) {
            errors.push(PolicyError::new("limit_percent", &"1 to 100", &found));
        }
        let most = self.limit_percent.unwrap_or(100);
        if let Some(found) = self.guaranteed_percent.filter(|part| *part > most) {
            let expected = format_args!("at most limit_percent, or 100, which is {most}");
            errors.push(PolicyError::new("guaranteed_percent", &expected, &found));
        }
        if let Some(found) = self.limit_inodes.filter(|inodes| *inodes < LEAST_INODES) {
            let expected = format_args!("at least {LEAST_INODES}");
            errors.push(PolicyError::new("limit_inodes", &expected, &found));
        }
        if let Some(found) = self.record_bytes {
            let most = self.limit_bytes.unwrap_or(u64::MAX);
            if found < LEAST_RECORD_BYTES || found > most {
                let expected = match self.limit_bytes {
                    Some(most) => {
                        format!("{LEAST_RECORD_BYTES} to limit_bytes, which is {most}")
                    }
                    None => format!("at least {LEAST_RECORD_BYTES}"),
                };
                errors.push(PolicyError::new("record_bytes", &expected, &found));
            }
        }
        if self.record_files < LEAST_RECORD_FILES {
            let expected = format_args!("at least {LEAST_RECORD_FILES}");
            let found = self.record_files;
            errors.push(PolicyError::new("record_files", &expected, &found));
        }
        errors
    }
}

impl LearnedKeepAlive {
    fn mistakes(&self, keep_alive_secs: u64) -> Vec<PolicyError> {
        let mut errors = Vec::new();
        errors.extend(secs("standard_secs", self.standard_secs, keep_alive_secs));
        if self.tail_percent > 100 || self.tail_percent == 0 {
            let field = "tail_percent";
            errors.push(PolicyError::new(field, &"1 to 100", &self.tail_percent));
        }
        if self.head_percent > self.tail_percent {
            errors.push(PolicyError::new(
                "head_percent",
                &format_args!("at most tail_percent, which is {}", self.tail_percent),
                &self.head_percent,
            ));
        }
        for (field, percent) in [
            ("margin_percent", self.margin_percent),
            ("out_of_bounds_percent", self.out_of_bounds_percent),
        ] {
            if percent > 100 {
                errors.push(PolicyError::new(field, &"at most 100", &percent));
            }
        }
        if !(self.min_variation.is_finite() && self.min_variation >= 0.0) {
            let expected = "a number of 0 or more";
            let found = self.min_variation;
            errors.push(PolicyError::new("min_variation", &expected, &found));
        }
        errors
    }
}

fn secs(field: &str, found: u64, least: u64) -> Option<PolicyError> {
    if found > MAX_SECS {
        let expected = format_args!("at most {MAX_SECS} seconds, a year");
        return Some(PolicyError::new(field, &expected, &found));
    }
    (found < least).then(|| {
        let expected = format_args!("at least keep_alive_secs, which is {least}");
        PolicyError::new(field, &expected, &found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut PolicyConfig)) -> String {
        let mut config = PolicyConfig::default();
        change(&mut config);
        Policy::try_new(config).unwrap_err().to_string()
    }

    #[test]
    fn the_default_configuration_is_valid() {
        assert_eq!(
            Policy::try_new(PolicyConfig::default()),
            Ok(Policy::default())
        );
    }

    #[test]
    fn errors_name_the_field_what_is_expected_and_what_was_found() {
        assert_eq!(
            error(|config| config.high_watermark_percent = 101),
            "high_watermark_percent: expected 1 to 100, found 101"
        );
        assert_eq!(
            error(|config| config.low_watermark_percent = 96),
            "low_watermark_percent: expected at most high_watermark_percent, which is 95, found 96"
        );
        let quota = StorePolicy {
            guaranteed_bytes: 10,
            limit_bytes: Some(9),
            ..StorePolicy::default()
        };
        assert_eq!(
            error(|config| {
                config.stores.insert("team-a".to_owned(), quota);
            }),
            "stores.team-a.limit_bytes: expected at least guaranteed_bytes, which is 10, found 9"
        );
        assert_eq!(
            error(|config| {
                config.store.expiry = Expiry::Fixed;
                config.store.expire_after_secs = 59;
            }),
            "store.expire_after_secs: expected at least keep_alive_secs, which is 60, found 59"
        );
        assert_eq!(
            error(|config| {
                config.store.expiry = Expiry::Learned;
                config.store.learned.min_variation = f64::NAN;
            }),
            "store.learned.min_variation: expected a number of 0 or more, found NaN"
        );
        assert_eq!(
            error(|config| config.store.keep_alive_secs = u64::MAX),
            "store.keep_alive_secs: expected at most 31622400 seconds, a year, found 18446744073709551615"
        );
    }

    #[test]
    fn shares_are_checked() {
        let share = |change: fn(&mut StorePolicy)| error(|config| change(&mut config.store));
        assert_eq!(
            share(|store| {
                store.limit_bytes = Some(1);
                store.limit_percent = Some(50);
            }),
            "store.limit_percent: expected nothing beside limit_bytes, found 50"
        );
        assert_eq!(
            share(|store| {
                store.guaranteed_bytes = 1;
                store.guaranteed_percent = Some(5);
            }),
            "store.guaranteed_percent: expected nothing beside guaranteed_bytes, found 5"
        );
        assert_eq!(
            share(|store| store.limit_percent = Some(101)),
            "store.limit_percent: expected 1 to 100, found 101"
        );
        assert_eq!(
            share(|store| {
                store.limit_percent = Some(20);
                store.guaranteed_percent = Some(21);
            }),
            "store.guaranteed_percent: expected at most limit_percent, or 100, which is 20, found 21"
        );
        assert_eq!(
            share(|store| store.limit_inodes = Some(9)),
            "store.limit_inodes: expected at least 1024, found 9"
        );
        assert_eq!(
            error(|config| {
                let store = StorePolicy {
                    limit_percent: Some(0),
                    ..StorePolicy::default()
                };
                config.namespaces.insert("team-a".to_owned(), store);
            }),
            "namespaces.team-a.limit_percent: expected 1 to 100, found 0"
        );
        assert_eq!(
            error(|config| config.guaranteed_namespaces = 1 << 20),
            "guaranteed_namespaces: expected at most 10000, found 1048576"
        );
    }

    #[test]
    fn each_percentage_is_checked() {
        let learned = |change: fn(&mut LearnedKeepAlive)| {
            error(|config| {
                config.store.expiry = Expiry::Learned;
                change(&mut config.store.learned);
            })
        };
        assert!(learned(|rule| rule.tail_percent = 101).starts_with("store.learned.tail_percent:"));
        assert!(learned(|rule| rule.head_percent = 100).starts_with("store.learned.head_percent:"));
        assert!(
            learned(|rule| rule.margin_percent = 101).starts_with("store.learned.margin_percent:")
        );
        assert!(
            learned(|rule| rule.out_of_bounds_percent = 101)
                .starts_with("store.learned.out_of_bounds_percent:")
        );
        assert!(learned(|rule| rule.standard_secs = 0).starts_with("store.learned.standard_secs:"));
    }

    #[test]
    fn what_records_may_take_is_checked_and_follows_from_the_limit() {
        let least = error(|config| config.store.record_bytes = Some(4096));
        assert_eq!(
            least,
            "store.record_bytes: expected at least 1048576, found 4096"
        );
        let most = error(|config| {
            config.store.limit_bytes = Some(1 << 21);
            config.store.record_bytes = Some(1 << 22);
        });
        assert_eq!(
            most,
            "store.record_bytes: expected 1048576 to limit_bytes, which is 2097152, found 4194304"
        );
        let files = error(|config| config.store.record_files = 1);
        assert_eq!(files, "store.record_files: expected at least 64, found 1");
        let bytes = |limit_bytes, record_bytes| {
            let policy = StorePolicy {
                limit_bytes,
                record_bytes,
                ..StorePolicy::default()
            };
            let limit = policy.share(false, Space::of_bytes(1 << 50)).limit;
            policy.record_limits(limit).bytes
        };
        assert_eq!(bytes(None, None), DEFAULT_RECORD_BYTES);
        assert_eq!(bytes(Some(1 << 40), None), DEFAULT_RECORD_BYTES);
        assert_eq!(bytes(Some(1 << 20), None), 1 << 18);
        assert_eq!(bytes(Some(1 << 30), Some(1 << 29)), 1 << 29);
    }

    #[test]
    fn unknown_fields_are_refused_and_missing_ones_have_defaults() {
        let config: PolicyConfig =
            serde_json::from_str(r#"{"store":{"order":"lru","expiry":"learned"}}"#).unwrap();
        assert_eq!(config.store.order, Order::Lru);
        assert_eq!(config.high_watermark_percent, 95);
        assert!(serde_json::from_str::<PolicyConfig>(r#"{"keep_alive":1}"#).is_err());
    }
}
