//! Callers of a function: who may send it requests through the gateway.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::FieldProblem;

/// Largest number of namespaces, and of accounts.
const MAX_CALLERS: usize = 64;
/// Stands for every namespace.
const EVERY: &str = "*";

/// Callers besides those of the function's own namespace, which are always allowed. The gateway knows a caller by the
/// address of its pod, or by a bearer token that the API server vouches for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallersSpec {
    /// Namespaces whose pods and service accounts may call the function; `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// Accounts whose tokens may call it, as the API server names them, such as
    /// system:serviceaccount:web:frontend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    pub accounts: Vec<String>,
    /// True if all who reach the gateway may call it, also those it does not know.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anyone: bool,
}

/// Callers that a function allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedCallers {
    /// All who reach the gateway.
    Anyone,
    /// Callers that the gateway knows.
    Known {
        /// Namespaces of their pods and service accounts, the function's own first; `*` for all.
        namespaces: Vec<String>,
        /// Names of accounts.
        accounts: Vec<String>,
    },
}

impl AllowedCallers {
    /// Returns true if pods and service accounts of this namespace may call the function.
    pub fn allow_namespace(&self, namespace: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Known { namespaces, .. } => namespaces
                .iter()
                .any(|allowed| allowed == EVERY || allowed == namespace),
        }
    }

    /// Returns true if a token of this account may call it. `namespace` is that of a service account.
    pub fn allow_account(&self, account: &str, namespace: Option<&str>) -> bool {
        match self {
            Self::Anyone => true,
            Self::Known { accounts, .. } => {
                accounts.iter().any(|allowed| allowed == account)
                    || namespace.is_some_and(|namespace| self.allow_namespace(namespace))
            }
        }
    }
}

impl CallersSpec {
    /// Checks the lists of a function in `namespace`.
    pub(super) fn checked(&self, namespace: &str) -> Result<AllowedCallers, FieldProblem> {
        for (field, names, most) in [
            ("spec.callers.namespaces", &self.namespaces, 63),
            ("spec.callers.accounts", &self.accounts, 256),
        ] {
            FieldProblem::check(field, names.len() as u64, 0, MAX_CALLERS as u64)?;
            for (index, name) in names.iter().enumerate() {
                FieldProblem::check_text(format!("{field}[{index}]"), name, most)?;
            }
        }
        if self.anyone {
            return Ok(AllowedCallers::Anyone);
        }
        let namespaces = std::iter::once(namespace.to_owned());
        Ok(AllowedCallers::Known {
            namespaces: namespaces.chain(self.namespaces.iter().cloned()).collect(),
            accounts: self.accounts.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_for_its_own_namespace_and_those_that_it_names() {
        let callers = CallersSpec::default().checked("search").unwrap();
        assert!(callers.allow_namespace("search") && !callers.allow_namespace("web"));
        assert!(callers.allow_account("system:serviceaccount:search:a", Some("search")));
        assert!(
            !callers.allow_account("search", None),
            "a user named like a namespace"
        );
        let named = CallersSpec {
            namespaces: vec!["web".to_owned()],
            accounts: vec!["alice".to_owned()],
            anyone: false,
        };
        let allowed = named.checked("search").unwrap();
        assert!(allowed.allow_namespace("web") && allowed.allow_account("alice", None));
        assert!(!allowed.allow_namespace("other") && !allowed.allow_account("bob", None));
        let every = CallersSpec {
            namespaces: vec![EVERY.to_owned()],
            ..CallersSpec::default()
        };
        let every = every.checked("search").unwrap();
        assert!(every.allow_namespace("other") && !every.allow_account("bob", None));
        let anyone = CallersSpec {
            anyone: true,
            ..CallersSpec::default()
        };
        assert_eq!(anyone.checked("search"), Ok(AllowedCallers::Anyone));
    }

    #[test]
    fn too_many_or_empty_names_are_refused() {
        let many = vec!["a".to_owned(); MAX_CALLERS + 1];
        for (namespaces, field) in [
            (many, "spec.callers.namespaces"),
            (
                vec!["a".to_owned(), String::new()],
                "spec.callers.namespaces[1]",
            ),
        ] {
            let spec = CallersSpec {
                namespaces,
                ..CallersSpec::default()
            };
            assert_eq!(spec.checked("search").unwrap_err().field, field);
        }
    }
}
