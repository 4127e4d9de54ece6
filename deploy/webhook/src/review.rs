//! The API server's requests, and answers to them. A request is always allowed: this webhook adds, and forbids nothing.

use json_patch::Patch;
use k8s_openapi::ByteString;
use kube::core::DynamicObject;
use kube::core::admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, META_API_VERSION_V1, META_KIND, Operation,
};
use serde_json::Value;
use thiserror::Error;

use crate::inject::{Injection, InjectionOutcome, Options, Scope, inject};

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// An AdmissionReview with a response.
    pub body: Value,
    /// Outcome for the pod.
    pub outcome: InjectionOutcome,
    /// Number of warnings for its author.
    pub warnings: usize,
}

/// The reason a request cannot be answered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// It is not an AdmissionReview in JSON.
    #[error(
        "field `{path}`: {source}; expected an AdmissionReview of {META_API_VERSION_V1} in JSON"
    )]
    Unreadable {
        /// The field.
        path: String,
        /// Cause.
        source: serde_json::Error,
    },
    /// It is another version, or another object.
    #[error(
        "expected {META_KIND} of {META_API_VERSION_V1}, found {found}; set `admissionReviewVersions: [v1]` in the webhook configuration"
    )]
    Version {
        /// Kind and version.
        found: String,
    },
    /// It has no request.
    #[error("field `request`: expected one, found none; post what an API server would")]
    NoRequest,
    /// The patch cannot be written.
    #[error("the answer cannot be written: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Answers a request's body.
pub fn review(body: &[u8], scope: Scope, options: &Options) -> Result<Review, ReviewError> {
    let request = parse(body)?;
    let injection = decide(&request, scope, options);
    log(&request, &injection);
    let (outcome, warnings) = (injection.outcome, injection.warnings.len());
    Ok(Review {
        body: answer(&request, injection)?,
        outcome,
        warnings,
    })
}

fn answer(
    request: &AdmissionRequest<DynamicObject>,
    injection: Injection,
) -> serde_json::Result<Value> {
    let mut response = AdmissionResponse::from(request);
    if !injection.warnings.is_empty() {
        response.warnings = Some(injection.warnings);
    }
    let mut body = serde_json::to_value(response.into_review())?;
    let response = body.get_mut("response").and_then(Value::as_object_mut);
    if let (false, Some(response)) = (injection.patch.is_empty(), response) {
        // Kube would write the bytes as a list of numbers; Kubernetes documents base64.
        let patch = ByteString(serde_json::to_vec(&injection.patch)?);
        response.insert("patch".to_owned(), serde_json::to_value(patch)?);
        response.insert("patchType".to_owned(), "JSONPatch".into());
    }
    Ok(body)
}

fn parse(body: &[u8]) -> Result<AdmissionRequest<DynamicObject>, ReviewError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let review: AdmissionReview<DynamicObject> = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| {
            let path = error.path().to_string();
            let source = error.into_inner();
            ReviewError::Unreadable { path, source }
        })?;
    json.end().map_err(|source| ReviewError::Unreadable {
        path: ".".to_owned(),
        source,
    })?;
    if review.types.kind != META_KIND || review.types.api_version != META_API_VERSION_V1 {
        let found = format!("{} of {}", review.types.kind, review.types.api_version);
        let found = found.chars().take(128).collect();
        return Err(ReviewError::Version { found });
    }
    review.try_into().map_err(|_| ReviewError::NoRequest)
}

fn decide(request: &AdmissionRequest<DynamicObject>, scope: Scope, options: &Options) -> Injection {
    let untouched = |outcome, warning: Option<&str>| Injection {
        patch: Patch::default(),
        warnings: warning.map(str::to_owned).into_iter().collect(),
        outcome,
    };
    let is_pod = request.resource.group.is_empty() && request.resource.resource == "pods";
    let is_part = request
        .sub_resource
        .as_ref()
        .is_some_and(|part| !part.is_empty());
    if !is_pod || is_part || request.operation != Operation::Create {
        let warning = "the configuration of the webhook tetris-webhook sends more than the creation of pods; correct its rules";
        return untouched(InjectionOutcome::Refused, Some(warning));
    }
    match request.object.as_ref().map(serde_json::to_value) {
        Some(Ok(Value::Object(pod))) => inject(&Value::Object(pod), scope, options),
        _ => untouched(
            InjectionOutcome::Refused,
            Some("nothing injected: the request has no pod"),
        ),
    }
}

fn log(request: &AdmissionRequest<DynamicObject>, injection: &Injection) {
    let metadata = request.object.as_ref().map(|pod| &pod.metadata);
    // Pods of controllers get their names later.
    let name = metadata.and_then(|m| m.name.as_deref().or(m.generate_name.as_deref()));
    let pod = name.unwrap_or(&request.name);
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let outcome = injection.outcome.name();
    let dry_run = request.dry_run;
    tracing::info!(namespace, pod, outcome, dry_run, uid = %request.uid, "reviewed a pod");
    for warning in &injection.warnings {
        tracing::warn!(namespace, pod, "{warning}");
    }
}
