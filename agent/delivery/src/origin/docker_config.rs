//! Logins of registries, as `docker login` and a Kubernetes Secret of type `kubernetes.io/dockerconfigjson` have them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    user: String,
    password: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

impl Login {
    /// The value of `Authorization`.
    pub(super) fn basic(&self) -> String {
        let text = format!("{}:{}", self.user, self.password);
        format!("Basic {}", BASE64_STANDARD.encode(text))
    }
}

/// The login for a registry, if there is one.
pub(super) fn login(registry: &str) -> Option<Login> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker")));
    let text = std::fs::read(folder?.join("config.json")).ok()?;
    let config: Config = serde_json::from_slice(&text).ok()?;
    let helper = config.cred_helpers.get(registry);
    if let Some(login) = config.login(registry) {
        return Some(login);
    }
    helped(helper.or(config.creds_store.as_ref())?, registry)
}

impl Config {
    fn login(&self, registry: &str) -> Option<Login> {
        let is_of = |name: &str| {
            let host = name.split("://").last().unwrap_or_default();
            host.split('/').next() == Some(registry)
        };
        let (_, auth) = self.auths.iter().find(|(name, _)| is_of(name))?;
        if let (Some(user), Some(password)) = (&auth.username, &auth.password) {
            return Some(Login {
                user: user.clone(),
                password: password.clone(),
            });
        }
        let text = BASE64_STANDARD.decode(auth.auth.as_ref()?).ok()?;
        let text = String::from_utf8(text).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Login {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }
}

/// The login that a helper of Docker gives.
fn helped(helper: &str, registry: &str) -> Option<Login> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !helper.bytes().all(is_plain) {
        return None;
    }
    let mut command = Command::new(format!("docker-credential-{helper}"));
    let command = command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().ok()?;
    std::io::Write::write_all(child.stdin.as_mut()?, registry.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let helped: Helped = serde_json::from_slice(&output.stdout).ok()?;
    Some(Login {
        user: helped.username,
        password: helped.secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_found_by_the_registry_s_name() {
        let text = r#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "dTpwOnE="},
            "ghcr.io": {"username": "me", "password": "secret"},
            "broken": {"auth": "%%%"}
        }}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        let of = |registry: &str| {
            config
                .login(registry)
                .map(|login| (login.user, login.password))
        };
        assert_eq!(of("index.docker.io"), Some(("u".into(), "p:q".into())));
        assert_eq!(of("ghcr.io"), Some(("me".into(), "secret".into())));
        assert_eq!((of("broken"), of("other")), (None, None));
        let login = config.login("index.docker.io").unwrap();
        assert_eq!(login.basic(), "Basic dTpwOnE=");
    }
}
