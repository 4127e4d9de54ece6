//! The list of models of all engines that sleep, in OpenAI's form.

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::ResponseBody;
use super::answer::json_response;
use super::openai_model;
use crate::problem::Problem;
use crate::routes::Routes;

const MODELS: &str = "/v1/models";

/// Answers a request for the list, or for the entry of one model. `None` for other requests, and without groups of engines.
pub(super) fn answer(
    routes: &Routes,
    parts: &Parts,
) -> Option<Result<Response<ResponseBody>, Problem>> {
    let rest = parts.uri.path().strip_prefix(MODELS)?;
    let groups = routes.engine_groups();
    if groups.is_empty() || !matches!(parts.method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut models = groups.iter().flat_map(|group| group.models());
    if rest.is_empty() {
        let all: Vec<_> = models.collect();
        let list = json!({"object": "list", "data": all});
        return Some(Ok(json_response(StatusCode::OK, &list)));
    }
    // Names of models may have slashes, as they are or encoded.
    let name = percent_decode_str(rest.strip_prefix('/')?).decode_utf8_lossy();
    let model = models.find(|model| model.id == name);
    Some(match model {
        Some(model) => Ok(json_response(StatusCode::OK, &json!(model))),
        None => Err(openai_model::unknown(&name)),
    })
}
