//! The secret with the certificates.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;

use super::Names;
use super::error::{SyncError, code};
use super::owner::{OWNER_LABEL, OWNER_VALUE};

type Data = BTreeMap<String, ByteString>;

/// The secret, which must be there and this component's.
pub(super) async fn read(secrets: &Api<Secret>, names: &Names) -> Result<Secret, SyncError> {
    let read = secrets.get_opt(&names.secret).await;
    let object = read.map_err(|source| SyncError::api(format!("get {}", called(names)), source))?;
    let (namespace, name) = (names.namespace.clone(), names.secret.clone());
    let Some(secret) = object else {
        return Err(SyncError::NoSecret { namespace, name });
    };
    let labels = secret.metadata.labels.as_ref();
    let owner = labels.and_then(|labels| labels.get(OWNER_LABEL));
    if owner.is_none_or(|owner| owner != OWNER_VALUE) {
        return Err(SyncError::NotOurs { namespace, name });
    }
    Ok(secret)
}

/// Returns the data of the secret.
pub(super) fn data(secret: &Secret) -> &Data {
    static NONE: Data = Data::new();
    secret.data.as_ref().unwrap_or(&NONE)
}

/// Writes `data` to the secret that was `found`, and nothing else of it, unless someone wrote since.
/// The rest of the secret is sent as it was read, with its version, so that the write holds for that
/// one alone.
pub(super) async fn write(
    secrets: &Api<Secret>,
    names: &Names,
    mut found: Secret,
    data: Data,
) -> Result<(), SyncError> {
    let params = PostParams {
        field_manager: Some(OWNER_VALUE.to_owned()),
        ..PostParams::default()
    };
    found.data.get_or_insert_default().extend(data);
    let object = called(names);
    match secrets.replace(&names.secret, &params, &found).await {
        Ok(_) => Ok(()),
        // 404: gone since it was read.
        Err(error) if matches!(code(&error), Some(409 | 404)) => Err(SyncError::Raced { object }),
        Err(source) => Err(SyncError::api(format!("update {object}"), source)),
    }
}

fn called(names: &Names) -> String {
    format!("Secret `{}/{}`", names.namespace, names.secret)
}
