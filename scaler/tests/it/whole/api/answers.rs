//! Answers of the simulated API server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::{Id, Objects};
use super::patches::{apply, merge};
use super::rights::Rights;
use super::target::Target;

/// Maximum number of objects on a page, less than requested, as the API allows.
const PAGE: usize = 2;

/// A request that was answered.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Token of the client.
    pub by: String,
    pub verb: &'static str,
    /// Resource, with the subresource.
    pub resource: String,
    pub name: String,
    pub query: BTreeMap<String, String>,
    pub body: Value,
    pub code: u16,
}

impl Asked {
    /// Returns true if the request changes something; requests for the lease and for tokens do not
    /// count.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
            && !["leases", "serviceaccounts/token"].contains(&self.resource.as_str())
    }
}

/// Writes that fail.
pub struct Fault {
    pub resource: &'static str,
    pub name: &'static str,
    pub code: u16,
}

/// A request.
pub struct Request<'a> {
    pub by: String,
    pub verb: &'static str,
    pub target: &'a Target,
    pub query: BTreeMap<String, String>,
    pub content: String,
    pub body: Value,
}

pub struct State {
    pub objects: Objects,
    pub asked: Vec<Asked>,
    pub faults: Vec<Fault>,
    /// True if pods do not become ready.
    pub holds_pods: bool,
    /// Number of times that all watches were cut.
    pub cuts: u64,
    rights: Rights,
    /// Last applied configuration by manager.
    applied: BTreeMap<(Id, bool, String), Value>,
}

type Answer = Result<(u16, Value), (u16, String)>;

impl Default for State {
    fn default() -> Self {
        Self {
            objects: Objects::default(),
            asked: Vec::new(),
            faults: Vec::new(),
            holds_pods: false,
            cuts: 0,
            rights: Rights::read(),
            applied: BTreeMap::new(),
        }
    }
}

impl State {
    /// Returns the answered writes of clients with the name prefix `by`.
    pub fn writes(&self, by: &str) -> Vec<&Asked> {
        let all = self.asked.iter();
        all.filter(|entry| entry.is_write() && entry.by.starts_with(by))
            .collect()
    }

    pub fn may(&self, verb: &str, target: &Target) -> Result<(), (u16, String)> {
        if self.rights.allow(verb, target) {
            return Ok(());
        }
        Err((403, format!("no right to {verb} {target:?}")))
    }

    pub fn answer(&mut self, request: Request<'_>) -> (u16, Value) {
        let answer = self.checked(&request);
        let (code, object) = answer.unwrap_or_else(|(code, problem)| failure(code, &problem));
        self.asked.push(Asked {
            by: request.by,
            verb: request.verb,
            resource: request.target.full(),
            name: request.target.name.clone().unwrap_or_default(),
            query: request.query,
            body: request.body,
            code,
        });
        (code, object)
    }

    fn checked(&mut self, request: &Request<'_>) -> Answer {
        self.may(request.verb, request.target)?;
        let (target, id) = (request.target, request.target.id());
        let fault = self
            .faults
            .iter()
            .find(|fault| fault.resource == target.full() && id.2.starts_with(fault.name));
        if let Some(fault) = fault.filter(|_| !matches!(request.verb, "get" | "list")) {
            return Err((fault.code, "as the test wants it".to_owned()));
        }
        let old = self.objects.get(&id).cloned();
        match (request.verb, old) {
            ("list", _) => Ok((200, self.list(request))),
            ("create", _) if target.is_token => Ok((201, token(request))),
            ("create", _) => self.create(request),
            ("get", Some(old)) => Ok((200, old)),
            ("patch", old) if request.content == "application/apply-patch+yaml" => {
                self.apply(request, &id, old)
            }
            ("patch", Some(mut new)) => {
                current(&request.body, &new)?;
                let (status, spec) = (new["status"].clone(), new["spec"].clone());
                merge(&mut new, &request.body);
                restrict(&mut new, target.is_status, &spec, &status);
                valid(target, &new)?;
                Ok((200, self.objects.update(&id, new)))
            }
            ("update", Some(old)) => {
                current(&request.body, &old)?;
                Ok((200, self.objects.update(&id, request.body.clone())))
            }
            ("delete", Some(old)) => {
                let conditions = &request.body["preconditions"];
                current(&json!({"metadata": conditions}), &old)?;
                Ok((200, self.objects.remove(&id)))
            }
            _ => Err((404, format!("{id:?} not found"))),
        }
    }

    fn create(&mut self, request: &Request<'_>) -> Answer {
        let mut target = request.target.clone();
        let name = request.body["metadata"]["name"].as_str();
        target.name = Some(name.ok_or((422, "no name".to_owned()))?.to_owned());
        if self.objects.get(&target.id()).is_some() {
            return Err((409, format!("{target:?} is there")));
        }
        Ok((201, self.objects.create(&target.id(), request.body.clone())))
    }

    fn apply(&mut self, request: &Request<'_>, id: &Id, old: Option<Value>) -> Answer {
        let (target, body) = (request.target, &request.body);
        if body["apiVersion"] != target.kind().0 || body["kind"] != target.kind().1 {
            return Err((
                400,
                "apiVersion and kind are not those of the path".to_owned(),
            ));
        }
        let manager = request.query.get("fieldManager").cloned();
        let manager = manager.ok_or((400, "no fieldManager".to_owned()))?;
        let key = (id.clone(), target.is_status, manager);
        let Some(mut new) = old else {
            if target.is_status {
                return Err((404, format!("{id:?} not found")));
            }
            self.may("create", target)?;
            current(body, &Value::Null)?;
            valid(target, body)?;
            self.applied.insert(key, body.clone());
            return Ok((201, self.objects.create(id, body.clone())));
        };
        current(body, &new)?;
        let (status, spec, selector) = (
            new["status"].clone(),
            new["spec"].clone(),
            new["spec"]["selector"].clone(),
        );
        let before = self.applied.insert(key, body.clone());
        apply(&mut new, &before.unwrap_or_default(), body);
        restrict(&mut new, target.is_status, &spec, &status);
        valid(target, &new)?;
        if new["spec"]["selector"] != selector {
            return Err((422, "spec.selector: field is immutable".to_owned()));
        }
        Ok((200, self.objects.update(id, new)))
    }

    /// Returns a page. Further pages have the version of the first.
    fn list(&self, request: &Request<'_>) -> Value {
        let selector = request.query.get("labelSelector");
        let of = |id: &Id| request.target.namespace.is_empty() || id.1 == request.target.namespace;
        let all = self.objects.of(&request.target.resource);
        let mut all: Vec<(Id, Value)> = all
            .into_iter()
            .filter(|(id, object)| of(id) && selected(object, selector))
            .collect();
        let token = request
            .query
            .get("continue")
            .and_then(|it| it.split_once(' '));
        let mut version = self.objects.version.to_string();
        if let Some((first, last)) = token {
            first.clone_into(&mut version);
            all.retain(|(id, _)| format!("{}/{}", id.1, id.2).as_str() > last);
        }
        let mut metadata = json!({"resourceVersion": version});
        if all.len() > PAGE {
            all.truncate(PAGE);
            let (_, namespace, name) = &all[PAGE - 1].0;
            metadata["continue"] = format!("{version} {namespace}/{name}").into();
        }
        let (version, kind) = request.target.kind();
        let items: Vec<Value> = all.into_iter().map(|(_, object)| object).collect();
        json!({"apiVersion": version, "kind": format!("{kind}List"), "metadata": metadata, "items": items})
    }
}

/// Returns a token whose text names its account and its audience.
fn token(request: &Request<'_>) -> Value {
    let mut answer = request.body.clone();
    let audience = request.body["spec"]["audiences"][0].as_str().unwrap();
    let account = request.target.name.as_deref().unwrap();
    let token = format!("{account}={audience}");
    answer["status"] = json!({"token": token, "expirationTimestamp": "2100-01-01T00:00:00Z"});
    answer
}

/// Returns true if `object` has the label that the selector requires.
pub fn selected(object: &Value, selector: Option<&String>) -> bool {
    selector.is_none_or(|label| object["metadata"]["labels"].get(label).is_some())
}

/// Restricts a write: the main resource keeps the status, the subresource changes only the status.
fn restrict(new: &mut Value, is_status: bool, spec: &Value, status: &Value) {
    let (field, kept) = if is_status {
        ("spec", spec)
    } else {
        ("status", status)
    };
    let map = new.as_object_mut().unwrap();
    if kept.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), kept.clone());
    }
}

/// Checks that the requested version and uid are the current ones.
fn current(asked: &Value, present: &Value) -> Result<(), (u16, String)> {
    let asked = asked.get("metadata").unwrap_or(&Value::Null);
    for field in ["resourceVersion", "uid"] {
        let (wanted, found) = (&asked[field], &present["metadata"][field]);
        if !wanted.is_null() && wanted != found {
            return Err((
                409,
                format!("{field}: {found} is there, {wanted} is asked for"),
            ));
        }
    }
    Ok(())
}

/// Checks the fields that an API server requires of a Deployment.
fn valid(target: &Target, object: &Value) -> Result<(), (u16, String)> {
    if target.resource != "deployments" {
        return Ok(());
    }
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    let selector = object["spec"]["selector"]["matchLabels"].as_object();
    let selects = selector.is_some_and(|selector| {
        let mut all = selector.iter();
        !selector.is_empty() && all.all(|(name, value)| labels.get(name) == Some(value))
    });
    let containers = object["spec"]["template"]["spec"]["containers"].as_array();
    let named = |one: &Value| one["name"].is_string() && one["image"].is_string();
    if selects && containers.is_some_and(|all| !all.is_empty() && all.iter().all(named)) {
        return Ok(());
    }
    Err((422, format!("no such Deployment: {object}")))
}

pub fn failure(code: u16, message: &str) -> (u16, Value) {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, status)
}
