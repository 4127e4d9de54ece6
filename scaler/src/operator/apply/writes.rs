//! Requests to the API server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::DynamicObject;
use kube::runtime::events::{Event, EventType};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::{Action, Applier, ApplyError};
use crate::labels;
use crate::operator::plan::FunctionPlan;
use crate::resources::{InferenceFunction, InferenceFunctionSpec, InferenceFunctionStatus};
use crate::state::Key;

impl Applier {
    /// Executes one action.
    pub(super) async fn act(&self, plan: &FunctionPlan, action: &Action) -> Result<(), ApplyError> {
        match action {
            Action::Mark {
                pod,
                retiring,
                cost,
            } => self.mark(pod, *retiring, *cost).await,
            Action::Apply {
                key,
                is_present,
                object,
            } => {
                if !is_present {
                    self.check_absent(key, &plan.record.uid).await?;
                }
                self.apply(key, object).await
            }
            Action::Scale {
                key,
                version,
                replicas,
            } => self.scale(key, version, *replicas).await,
            Action::Delete { key, uid, version } => self.delete(key, uid, version).await,
            Action::Event {
                is_warning,
                reason,
                note,
            } => {
                self.event(plan, *is_warning, reason, note).await;
                Ok(())
            }
            Action::Status(status) => self.status(&plan.record.key, status).await,
        }
    }

    async fn mark(
        &self,
        pod: &Key,
        retiring: Option<bool>,
        cost: Option<i32>,
    ) -> Result<(), ApplyError> {
        let mut annotations = Map::new();
        if let Some(retiring) = retiring {
            let value = if retiring { json!("true") } else { Value::Null };
            annotations.insert(labels::RETIRING.to_owned(), value);
        }
        if let Some(cost) = cost {
            // A missing cost is zero.
            let value = if cost == 0 {
                Value::Null
            } else {
                json!(cost.to_string())
            };
            annotations.insert(labels::DELETION_COST.to_owned(), value);
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        match api.patch_metadata(&pod.name, &by_us(), &patch).await {
            Ok(_) => self.metrics.wrote("mark"),
            // The pod is gone already.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(ApplyError::of("pod", pod, error)),
        }
        Ok(())
    }

    async fn apply(&self, key: &Key, object: &Value) -> Result<(), ApplyError> {
        let api = self.deployments(key);
        let applied = api
            .patch(&key.name, &by_us().force(), &Patch::Apply(object))
            .await;
        self.written(applied, key, "apply")
    }

    async fn scale(&self, key: &Key, version: &str, replicas: u32) -> Result<(), ApplyError> {
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "spec": {"replicas": replicas},
        });
        let api = self.deployments(key);
        let scaled = api.patch(&key.name, &by_us(), &Patch::Merge(patch)).await;
        self.written(scaled, key, "scale")
    }

    async fn delete(&self, key: &Key, uid: &str, version: &str) -> Result<(), ApplyError> {
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                resource_version: Some(version.to_owned()),
                uid: Some(uid.to_owned()),
            }),
            ..DeleteParams::default()
        };
        match self.deployments(key).delete(&key.name, &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => self.written(deleted, key, "delete"),
        }
    }

    /// Checks that no Deployment of that name exists, unseen by the caches or of another owner than
    /// the function with this uid.
    async fn check_absent(&self, key: &Key, function: &str) -> Result<(), ApplyError> {
        let looked_up = self.deployments(key).get_metadata_opt(&key.name).await;
        let existing = looked_up.map_err(|error| ApplyError::of("Deployment", key, error))?;
        let Some(found) = existing else {
            return Ok(());
        };
        let mut owners = found.owner_references().iter();
        if owners.any(|owner| owner.uid == function) {
            return Err(ApplyError::Outdated(format!("Deployment {key}")));
        }
        Err(ApplyError::Foreign {
            kind: "Deployment",
            key: key.clone(),
            owner: "function",
        })
    }

    /// Publishes an event. A lost event does not stop the other actions.
    async fn event(&self, plan: &FunctionPlan, is_warning: bool, reason: &str, note: &str) {
        let mut object =
            InferenceFunction::new(&plan.record.key.name, InferenceFunctionSpec::default());
        object.metadata.namespace = Some(plan.record.key.namespace.clone());
        object.metadata.uid = Some(plan.record.uid.clone());
        let type_ = if is_warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: "Scale".to_owned(),
            secondary: None,
        };
        match self.recorder.publish(&event, &object.object_ref(&())).await {
            Ok(()) => self.metrics.wrote("event"),
            Err(error) => {
                self.metrics.failed("event");
                tracing::warn!(function = %plan.record.key, "event {reason}: {error}");
            }
        }
    }

    async fn status(&self, key: &Key, status: &InferenceFunctionStatus) -> Result<(), ApplyError> {
        let kind = InferenceFunction::kind(&());
        let object = json!({
            "apiVersion": InferenceFunction::api_version(&()),
            "kind": kind,
            "metadata": {"name": key.name},
            "status": status,
        });
        let resource = kube::core::ApiResource::erase::<InferenceFunction>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
        let patch = Patch::Apply(&object);
        match api.patch_status(&key.name, &by_us().force(), &patch).await {
            Ok(_) => self.metrics.wrote("status"),
            // The function was deleted.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(ApplyError::of_request(format!("status of {key}"), error)),
        }
        Ok(())
    }

    fn deployments(&self, key: &Key) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn written<T>(
        &self,
        result: Result<T, kube::Error>,
        key: &Key,
        kind: &'static str,
    ) -> Result<(), ApplyError> {
        match result {
            Ok(_) => {
                self.metrics.wrote(kind);
                Ok(())
            }
            Err(error) => Err(ApplyError::of("Deployment", key, error)),
        }
    }
}

fn by_us() -> PatchParams {
    PatchParams::apply(labels::MANAGER)
}
