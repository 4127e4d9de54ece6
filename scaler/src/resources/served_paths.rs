//! Paths that a function serves: those of inference protocols, and others that its owner lists.

use std::sync::{Arc, LazyLock};

use thiserror::Error;

/// Largest number of patterns of one function.
const MAX_PATHS: usize = 64;
/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 256;
/// Largest number of `*` in a pattern: each may cost a pass over a segment.
const MAX_WILDCARDS: usize = 16;

/// Name of the paths of the Open Inference Protocol.
const INFERENCE: &str = "inference";
/// Name of the paths of OpenAI's API.
const OPENAI: &str = "openai";

/// Paths of inference: the Open Inference Protocol 2 over HTTP and gRPC, with the extension `generate`, and KServe's
/// protocol 1. Paths of the repository, statistics, traces and shared memory are not among them.
const INFERENCE_PATHS: [&str; 27] = [
    "POST /v2/models/*/infer",
    "POST /v2/models/*/versions/*/infer",
    "POST /v2/models/*/generate",
    "POST /v2/models/*/versions/*/generate",
    "POST /v2/models/*/generate_stream",
    "POST /v2/models/*/versions/*/generate_stream",
    "GET /v2/models/*",
    "GET /v2/models/*/ready",
    "GET /v2/models/*/versions/*",
    "GET /v2/models/*/versions/*/ready",
    "!/v2/models/stats",
    "GET /v2",
    "GET /v2/health/live",
    "GET /v2/health/ready",
    "POST /inference.GRPCInferenceService/ModelInfer",
    "POST /inference.GRPCInferenceService/ModelStreamInfer",
    "POST /inference.GRPCInferenceService/ModelMetadata",
    "POST /inference.GRPCInferenceService/ModelReady",
    "POST /inference.GRPCInferenceService/ServerLive",
    "POST /inference.GRPCInferenceService/ServerMetadata",
    "POST /inference.GRPCInferenceService/ServerReady",
    "POST /grpc.health.v1.Health/Check",
    "GET /v1/models",
    "GET /v1/models/*",
    "POST /v1/models/*:predict",
    "POST /v1/models/*:explain",
    "POST /v1/models/*/infer",
];

/// Paths of OpenAI's API that servers of models have, with Anthropic's messages and the rerankers that they serve beside
/// it. Names of models may contain slashes.
const OPENAI_PATHS: [&str; 22] = [
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/embeddings",
    "POST /v1/responses",
    "GET /v1/responses/*",
    "DELETE /v1/responses/*",
    "GET /v1/responses/*/input_items",
    "POST /v1/responses/*/cancel",
    "GET /v1/models",
    "GET /v1/models/**",
    "POST /v1/audio/speech",
    "POST /v1/audio/transcriptions",
    "POST /v1/audio/translations",
    "POST /v1/images/edits",
    "POST /v1/images/generations",
    "POST /v1/images/variations",
    "POST /v1/moderations",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/rerank",
    "POST /v1/score",
    "POST /v2/rerank",
];

static PROTOCOLS: LazyLock<ServedPaths> = LazyLock::new(|| {
    let patterns = known(OPENAI).into_iter().chain(known(INFERENCE));
    ServedPaths::of(patterns.flatten().collect())
});

/// The reason a pattern of paths cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathsError {
    /// Too many patterns, or none.
    #[error(
        "found {found} patterns, expected 1 to {MAX_PATHS}; leave the field out for the paths of the protocols"
    )]
    Number {
        /// Number of patterns.
        found: usize,
    },
    /// A pattern of a wrong form.
    #[error(
        "[{index}]: found `{found}`, expected `{INFERENCE}`, `{OPENAI}`, or a path such as `POST /predict`, `/v1/*/run`, `/docs/**` or `!/metrics`"
    )]
    Form {
        /// Number of the pattern, from 0.
        index: usize,
        /// Beginning of the pattern.
        found: String,
    },
}

/// Paths that a function serves, with their methods, after those that it does not serve. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPaths(Arc<[Pattern]>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// True if matching paths are not served, whatever other patterns say.
    excludes: bool,
    /// `None` for all methods.
    method: Option<String>,
    /// Text of the path before its first wildcard.
    begin: String,
    /// Segments of the path, each with at most one wildcard per `*`.
    segments: Vec<String>,
    /// True if further segments may follow.
    open: bool,
}

impl Default for ServedPaths {
    /// Paths of the inference protocols.
    fn default() -> Self {
        PROTOCOLS.clone()
    }
}

impl ServedPaths {
    /// Reads the patterns of a function: names of protocols (`inference`, `openai`), or paths. A path may have a method
    /// before it, `*` for any text within a segment, `**` for all segments at its end, and `!` before all for what is
    /// not served.
    ///
    /// # Errors
    ///
    /// The first pattern of a wrong form.
    pub fn parse(patterns: &[String]) -> Result<Self, PathsError> {
        if !(1..=MAX_PATHS).contains(&patterns.len()) {
            let found = patterns.len();
            return Err(PathsError::Number { found });
        }
        let mut all = Vec::new();
        for (index, text) in patterns.iter().enumerate() {
            let wrong = || PathsError::Form {
                index,
                found: text.chars().take(64).collect::<String>(),
            };
            match known(text) {
                Some(protocol) => all.extend(protocol),
                None => all.push(Pattern::parse(text).ok_or_else(wrong)?),
            }
        }
        Ok(Self::of(all))
    }

    /// The same paths without those below these roots, e.g. `/metrics`, whatever the patterns say.
    pub fn without(&self, roots: &[&str]) -> Self {
        let excluded = roots.iter().flat_map(|root| {
            let patterns = [format!("!{root}"), format!("!{root}/**")];
            patterns
                .into_iter()
                .filter_map(|text| Pattern::parse(&text))
        });
        Self::of(excluded.chain(self.0.iter().cloned()).collect())
    }

    /// Puts those that exclude first: of the others, the first that matches decides.
    fn of(mut patterns: Vec<Pattern>) -> Self {
        patterns.sort_by_key(|pattern| !pattern.excludes);
        Self(patterns.into())
    }

    /// Returns true if requests with this method are served at `path`, which is normalised and has no query.
    pub fn serve(&self, method: &str, path: &str) -> bool {
        let fits = |pattern: &&Pattern| pattern.matches(path) && pattern.allows(method);
        self.0
            .iter()
            .find(fits)
            .is_some_and(|first| !first.excludes)
    }
}

/// Patterns of a protocol.
fn known(name: &str) -> Option<Vec<Pattern>> {
    let paths: &[&str] = match name {
        INFERENCE => &INFERENCE_PATHS,
        OPENAI => &OPENAI_PATHS,
        _ => return None,
    };
    Some(
        paths
            .iter()
            .filter_map(|text| Pattern::parse(text))
            .collect(),
    )
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_PATTERN || text.matches('*').count() > MAX_WILDCARDS {
            return None;
        }
        let (excludes, text) = text
            .strip_prefix('!')
            .map_or((false, text), |rest| (true, rest));
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (Some(method), path),
            None => (None, text),
        };
        if method.is_some_and(|method| !is_method(method)) {
            return None;
        }
        let (path, open) = match path.strip_suffix("/**") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let segments = if path.is_empty() && open {
            Vec::new()
        } else {
            path.strip_prefix('/')?
                .split('/')
                .map(str::to_owned)
                .collect()
        };
        let is_plain = |segment: &String| {
            !matches!(segment.as_str(), "." | "..")
                && !segment.contains("**")
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !b"?#\\".contains(&byte))
        };
        // The root is the only path with an empty segment.
        let is_whole = path == "/" || segments.iter().all(|segment| !segment.is_empty());
        if !is_whole || !segments.iter().all(is_plain) {
            return None;
        }
        let begin = path.split('*').next().unwrap_or_default();
        Some(Self {
            excludes,
            method: method.map(str::to_owned),
            begin: begin.to_owned(),
            segments,
            open,
        })
    }

    fn allows(&self, method: &str) -> bool {
        let Some(allowed) = &self.method else {
            return true;
        };
        // A head is that of GET, and browsers ask for the options of a path before they use it.
        allowed == method || method == "OPTIONS" || (method == "HEAD" && allowed == "GET")
    }

    fn matches(&self, path: &str) -> bool {
        if !path.starts_with(&self.begin) {
            return false;
        }
        let Some(path) = path.strip_prefix('/') else {
            return false;
        };
        let mut found = path.split('/');
        for segment in &self.segments {
            if !found.next().is_some_and(|found| fits(segment, found)) {
                return false;
            }
        }
        // `/**` stands for at least one more segment, and for the bare `/` of a whole server.
        if self.open {
            found.next().is_some()
        } else {
            found.next().is_none()
        }
    }
}

fn is_method(text: &str) -> bool {
    (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Returns true if `text` has the form of `pattern`, in which each `*` stands for at least one letter.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        // A wildcard stands for one letter at least.
        let mut letters = rest.chars();
        if letters.next().is_none() {
            return false;
        }
        let after = letters.as_str();
        if parts.peek().is_none() {
            return after.ends_with(part);
        }
        let Some(at) = after.find(part) else {
            return false;
        };
        rest = after.get(at + part.len()..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(patterns: &[&str]) -> ServedPaths {
        let patterns: Vec<_> = patterns.iter().map(|&text| text.to_owned()).collect();
        ServedPaths::parse(&patterns).unwrap()
    }

    #[test]
    fn by_default_the_paths_of_protocols_are_served_and_no_others() {
        let default = ServedPaths::default();
        for (method, path) in [
            ("POST", "/v2/models/minilm/infer"),
            ("POST", "/v2/models/minilm/versions/1/infer"),
            ("GET", "/v2/models/minilm"),
            ("HEAD", "/v2/models/minilm"),
            ("GET", "/v2/health/ready"),
            ("POST", "/v1/chat/completions"),
            ("OPTIONS", "/v1/chat/completions"),
            ("GET", "/v1/models"),
            ("GET", "/v1/models/meta/llama"),
            ("POST", "/v1/models/iris:predict"),
            ("POST", "/inference.GRPCInferenceService/ModelInfer"),
        ] {
            assert!(default.serve(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("POST", "/v2/repository/models/m/unload"),
            ("POST", "/v2/repository/index"),
            ("POST", "/v2/models/m/load"),
            ("GET", "/v2/models/stats"),
            ("GET", "/v2/models/m/stats"),
            ("GET", "/v2/gpu"),
            ("GET", "/metrics"),
            ("GET", "/"),
            ("GET", "/docs"),
            ("POST", "/v1/load_lora_adapter"),
            ("POST", "/sleep"),
            ("DELETE", "/v1/models/m"),
            ("POST", "/v1/models/:predict"),
            ("GET", "/v1/chat/completions"),
            ("POST", "/v1/chat/completions/"),
            ("POST", "/V1/chat/completions"),
            (
                "POST",
                "/inference.GRPCInferenceService/RepositoryModelUnload",
            ),
            ("OPTIONS", "*"),
            ("GET", ""),
        ] {
            assert!(!default.serve(method, path), "{method} {path}");
        }
    }

    #[test]
    fn owners_list_paths_with_methods_wildcards_and_exceptions() {
        let served = paths(&[
            "openai",
            "POST /predict",
            "/jobs/*/*.json",
            "/docs/**",
            "!/docs/secret/**",
        ]);
        for (method, path) in [
            ("POST", "/predict"),
            ("POST", "/v1/embeddings"),
            ("PUT", "/jobs/7/result.json"),
            ("GET", "/docs/a"),
            ("GET", "/docs/a/b"),
        ] {
            assert!(served.serve(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/predict"),
            ("POST", "/predict/more"),
            ("POST", "/predictions"),
            ("GET", "/jobs/7/.json"),
            ("GET", "/jobs/7/8/result.json"),
            ("GET", "/docs"),
            ("GET", "/docs/secret/a"),
            ("POST", "/v2/models/m/infer"),
        ] {
            assert!(!served.serve(method, path), "{method} {path}");
        }
        let all = paths(&["/**", "!/metrics"]);
        assert!(all.serve("GET", "/") && all.serve("BREW", "/a/b"));
        assert!(!all.serve("GET", "/metrics"));
        assert!(paths(&["/"]).serve("GET", "/") && !paths(&["/"]).serve("GET", "/a"));
        let several = paths(&["/*a*b"]);
        assert!(several.serve("GET", "/xayb") && !several.serve("GET", "/ab"));
    }

    #[test]
    fn excluded_roots_win_over_all_patterns() {
        for patterns in [&["/**"][..], &["POST /sleep", "/sleep/**", "/sleepy"]] {
            let served = paths(patterns).without(&["/sleep"]);
            for path in ["/sleep", "/sleep/", "/sleep/a/b"] {
                assert!(!served.serve("POST", path), "{path}");
            }
            assert!(served.serve("POST", "/sleepy"));
        }
    }

    #[test]
    fn patterns_of_a_wrong_form_are_named() {
        for wrong in [
            "",
            "predict",
            "inferences",
            "post /x",
            "POST  /x",
            "/a//b",
            "/a/",
            "/a/../b",
            "/a?x",
            "/a/**/b",
            "/a**",
            "/a b",
            "/ü",
            "GET",
            "!",
            "/a\\b",
        ] {
            let parsed = ServedPaths::parse(&["/a".to_owned(), wrong.to_owned()]);
            let error = parsed.expect_err(wrong).to_string();
            assert!(
                error.starts_with(&format!("[1]: found `{wrong}`")),
                "{error}"
            );
        }
        for long in [
            "/".to_owned() + &"a".repeat(MAX_PATTERN),
            "/".to_owned() + &"*a".repeat(MAX_WILDCARDS + 1),
        ] {
            let error = ServedPaths::parse(&[long]).unwrap_err().to_string();
            assert!(error.len() < 300, "{error}");
        }
        let many = vec!["/a".to_owned(); MAX_PATHS + 1];
        for number in [Vec::new(), many] {
            let error = ServedPaths::parse(&number).unwrap_err();
            assert_eq!(
                error,
                PathsError::Number {
                    found: number.len()
                }
            );
        }
    }

    #[test]
    fn every_path_of_a_protocol_is_a_pattern() {
        assert_eq!(known(INFERENCE).unwrap().len(), INFERENCE_PATHS.len());
        assert_eq!(known(OPENAI).unwrap().len(), OPENAI_PATHS.len());
    }
}
