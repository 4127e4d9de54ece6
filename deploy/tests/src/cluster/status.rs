//! One store in the daemon's `/status`.

use anyhow::{Context, Result};
use serde_json::Value;

/// Users of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreUse {
    /// Objects that someone maps.
    pub held_objects: u64,
    /// Objects at all.
    pub objects: u64,
    /// Mappings, over all objects.
    pub holders: u64,
}

impl StoreUse {
    /// Of the store that pods ask for as `name`, in the body of `/status`. A namespace's own has the namespace's identifier after a dot.
    ///
    /// # Errors
    /// When the store is not there, or cannot be used.
    pub fn of(status: &str, name: &str) -> Result<Self> {
        let status: Value = serde_json::from_str(status)?;
        let mut stores = status["stores"].as_array().into_iter().flatten();
        let is_it = |store: &&Value| {
            let suffix = store["name"]
                .as_str()
                .and_then(|found| found.strip_prefix(name));
            suffix.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let store = stores.find(is_it);
        let store = store.with_context(|| format!("no store `{name}` in {status}"))?;
        anyhow::ensure!(
            store["error"].is_null(),
            "store `{name}`: {}",
            store["error"]
        );
        let states = store["states"].as_object().context("no `states`")?;
        let objects = |state: &Value| state["objects"].as_u64().unwrap_or_default();
        Ok(Self {
            held_objects: states.get("held").map(objects).unwrap_or_default(),
            objects: states.values().map(objects).sum(),
            holders: store["holders"].as_u64().context("no `holders`")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use tetris_node::report::{Amount, ObjectState, StoreStatus};

    use super::*;

    #[test]
    fn fields_are_those_that_the_daemon_writes() {
        let amount = |objects| Amount {
            objects,
            bytes: objects << 17,
        };
        let mut store = StoreStatus {
            name: "team".to_owned(),
            holders: 8,
            ..StoreStatus::default()
        };
        store.states = [
            (ObjectState::Held, amount(4)),
            (ObjectState::Idle, amount(1)),
        ]
        .into();
        let status = |store: &StoreStatus| serde_json::json!({"stores": [store]}).to_string();
        let parsed = StoreUse::of(&status(&store), "team").unwrap();
        let expected = StoreUse {
            held_objects: 4,
            objects: 5,
            holders: 8,
        };
        assert_eq!(parsed, expected);
        let other = StoreUse::of(&status(&store), "other").unwrap_err();
        assert!(other.to_string().contains("no store `other`"), "{other}");
        store.error = Some("gone".to_owned());
        StoreUse::of(&status(&store), "team").unwrap_err();
    }
}
