//! The secret with the certificates.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::Names;
use super::error::{SyncError, code};

/// The label by which a secret is known to be this component's.
pub const OWNER_LABEL: &str = "app.kubernetes.io/name";
/// Its value.
pub const OWNER_VALUE: &str = "tetris-webhook";

type Data = BTreeMap<String, ByteString>;

/// The secret, if there is one.
pub(super) async fn read(
    secrets: &Api<Secret>,
    names: &Names,
) -> Result<Option<Secret>, SyncError> {
    let read = secrets.get_opt(&names.secret).await;
    read.map_err(|source| SyncError::api(format!("get {}", called(names)), source))
}

/// Returns the data of the secret.
pub(super) fn data(secret: Option<&Secret>) -> &Data {
    static NONE: Data = Data::new();
    secret
        .and_then(|secret| secret.data.as_ref())
        .unwrap_or(&NONE)
}

/// Writes `data` to the secret that was `found`, unless someone wrote since.
pub(super) async fn write(
    secrets: &Api<Secret>,
    names: &Names,
    found: Option<Secret>,
    data: Data,
) -> Result<(), SyncError> {
    let params = PostParams {
        field_manager: Some(OWNER_VALUE.to_owned()),
        ..PostParams::default()
    };
    let (doing, written) = match found {
        None => ("create", secrets.create(&params, &new(names, data)).await),
        Some(secret) => {
            let changed = changed(secret, names, data)?;
            (
                "update",
                secrets.replace(&names.secret, &params, &changed).await,
            )
        }
    };
    let object = called(names);
    match written {
        Ok(_) => Ok(()),
        Err(error) if code(&error) == Some(409) => Err(SyncError::Raced { object }),
        // Gone since it was read.
        Err(error) if doing == "update" && code(&error) == Some(404) => {
            Err(SyncError::Raced { object })
        }
        Err(source) => Err(SyncError::api(format!("{doing} {object}"), source)),
    }
}

fn new(names: &Names, data: Data) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(names.secret.clone()),
            namespace: Some(names.namespace.clone()),
            labels: Some([(OWNER_LABEL.to_owned(), OWNER_VALUE.to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// The secret with other data, and with the version that was read, so that the write holds for that one alone.
fn changed(mut secret: Secret, names: &Names, data: Data) -> Result<Secret, SyncError> {
    let labels = secret.metadata.labels.get_or_insert_default();
    let ours = labels
        .get(OWNER_LABEL)
        .is_some_and(|value| value == OWNER_VALUE);
    let empty = secret
        .data
        .as_ref()
        .is_none_or(|data| data.values().all(|value| value.0.is_empty()));
    if !ours && !empty {
        return Err(SyncError::NotOurs {
            name: names.secret.clone(),
            label: format!("{OWNER_LABEL}={OWNER_VALUE}"),
        });
    }
    labels.insert(OWNER_LABEL.to_owned(), OWNER_VALUE.to_owned());
    secret.data.get_or_insert_default().extend(data);
    Ok(secret)
}

fn called(names: &Names) -> String {
    format!("Secret `{}/{}`", names.namespace, names.secret)
}
