//! Names of sources, as users write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use crate::error::PullError;

/// A place that models are pulled from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceName {
    /// `hf://ORG/MODEL[@REVISION]`: a repository of the Hugging Face hub.
    Hub {
        /// The repository, e.g. `Qwen/Qwen3-8B`.
        repo: String,
        /// Branch, tag or commit; `main` where none is named.
        revision: String,
    },
    /// `s3://`, `gs://` or `az://BUCKET/FOLDER`: a folder, or an object, of a bucket.
    Bucket(Url),
    /// `oci://REGISTRY/REPO[:TAG|@DIGEST]`: an artifact whose layers are files.
    Registry {
        /// Host, and port where it is not that of HTTPS.
        registry: String,
        /// The repository, e.g. `models/llama`.
        repo: String,
        /// Tag or digest; `latest` where none is named.
        reference: String,
    },
    /// `https://HOST/FILE`: a file, or the index of a model in several files.
    Web(Url),
    /// A folder, or a file, of this machine.
    Folder(PathBuf),
}

/// Schemes of buckets.
const BUCKETS: [&str; 3] = ["s3", "gs", "az"];

impl FromStr for SourceName {
    type Err = PullError;

    fn from_str(text: &str) -> Result<Self, PullError> {
        let invalid = |problem: String| PullError::Name {
            // Whatever a user has put behind `?` or before `@` may be a secret.
            name: without_secrets(text),
            problem,
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.is_empty() {
                Err(invalid("it is empty".to_owned()))
            } else {
                Ok(Self::Folder(text.into()))
            };
        };
        if scheme == "hf" {
            return hub(rest).map_err(invalid);
        }
        if scheme == "oci" {
            return registry(rest).map_err(invalid);
        }
        let url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            let problem = "it has credentials, which other users see in the list of processes; pass them by the environment";
            return Err(invalid(problem.to_owned()));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid("it names no bucket and no host".to_owned()));
        }
        match scheme {
            "http" | "https" => Ok(Self::Web(url)),
            _ if BUCKETS.contains(&scheme) => Ok(Self::Bucket(url)),
            _ => Err(invalid(format!("`{scheme}` is no kind of source"))),
        }
    }
}

/// The repository in the rest of a name.
fn hub(rest: &str) -> Result<SourceName, String> {
    // KServe writes the revision behind a colon.
    let (repo, revision) = rest.split_once(['@', ':']).unwrap_or((rest, "main"));
    let is_part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !part.is_empty() && part.bytes().all(allowed) && part.bytes().any(|byte| byte != b'.')
    };
    let mut parts = repo.split('/');
    let is_repo = parts.clone().count() <= 2 && parts.all(is_part);
    if !is_repo {
        return Err("the repository is not ORG/MODEL".to_owned());
    }
    // A branch may have slashes in its name.
    if !revision.split('/').all(is_part) {
        return Err(format!("`{revision}` is no revision"));
    }
    Ok(SourceName::Hub {
        repo: repo.to_owned(),
        revision: revision.to_owned(),
    })
}

/// The artifact in the rest of a name.
fn registry(rest: &str) -> Result<SourceName, String> {
    let (registry, path) = rest.split_once('/').unwrap_or_default();
    let (repo, reference) = match path.split_once('@') {
        Some((repo, digest)) => (repo, digest),
        None => path.rsplit_once(':').unwrap_or((path, "latest")),
    };
    let is_made_of = |text: &str, others: &[u8]| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    let is_repo = repo
        .split('/')
        .all(|part| is_made_of(part, b"-_.") && part.bytes().any(|byte| byte != b'.'));
    if !is_made_of(registry, b"-.:[]") || !is_repo || !is_made_of(reference, b"-_.:") {
        return Err("it is not REGISTRY/REPO[:TAG|@DIGEST]".to_owned());
    }
    Ok(SourceName::Registry {
        registry: registry.to_owned(),
        repo: repo.to_owned(),
        reference: reference.to_owned(),
    })
}

/// `text` up to its query, without user and password.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match text.split_once("://") {
        Some((scheme, rest)) if scheme != "hf" => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        _ => text.to_owned(),
    }
}

/// The address, without a query, which may be a signature.
pub(crate) fn shown(url: &Url) -> String {
    without_secrets(url.as_str())
}

impl SourceName {
    /// The name by which a store knows the source: as shown, a folder by its absolute path.
    pub fn stored_name(&self) -> String {
        match self {
            Self::Folder(path) => {
                let absolute = std::path::absolute(path);
                absolute.as_ref().unwrap_or(path).display().to_string()
            }
            named => named.to_string(),
        }
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub { repo, revision } => write!(f, "hf://{repo}@{revision}"),
            Self::Registry {
                registry,
                repo,
                reference,
            } => {
                let sign = if reference.contains(':') { '@' } else { ':' };
                write!(f, "oci://{registry}/{repo}{sign}{reference}")
            }
            Self::Bucket(url) | Self::Web(url) => f.write_str(&shown(url)),
            Self::Folder(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart_by_their_schemes() {
        for (text, shown) in [
            ("hf://gpt2", "hf://gpt2@main"),
            (
                "hf://Qwen/Qwen3-8B@refs/pr/7",
                "hf://Qwen/Qwen3-8B@refs/pr/7",
            ),
            ("hf://Qwen/Qwen3-8B:9c925d6", "hf://Qwen/Qwen3-8B@9c925d6"),
            ("s3://bucket/models/x", "s3://bucket/models/x"),
            ("az://container", "az://container"),
            (
                "oci://localhost:5000/a/b",
                "oci://localhost:5000/a/b:latest",
            ),
            ("oci://ghcr.io/a/b:v1", "oci://ghcr.io/a/b:v1"),
            ("oci://ghcr.io/a/b@sha256:0f", "oci://ghcr.io/a/b@sha256:0f"),
            (
                "https://host:8443/m.safetensors?X-Sig=s",
                "https://host:8443/m.safetensors",
            ),
            ("./models", "./models"),
        ] {
            let name: SourceName = text.parse().unwrap();
            assert_eq!(name.to_string(), shown);
        }
    }

    #[test]
    fn other_names_are_refused_without_their_secrets() {
        for text in [
            "",
            "hf://",
            "hf://a/b/c",
            "hf://a/..",
            "hf://a/b@../x",
            "hf://a/b?token=secret",
            "ftp://host/secret-less",
            "oci://ghcr.io",
            "oci://ghcr.io/a/../b",
            "oci://user:secret@host/a",
            "s3:///key",
            "https://user:secret@host/x?secret",
            "https://",
        ] {
            let error = text.parse::<SourceName>().unwrap_err().to_string();
            assert!(!error.contains("user:secret"), "{error}");
            assert!(error.contains("hf://ORG/MODEL"), "{error}");
        }
    }
}
