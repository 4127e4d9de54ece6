//! Questions about models that pods declare warm, answered from the last pass.

use tetris_store_layout::ManifestId;
use tetris_wire::daemon::{ErrorCode, Message};

use super::connection::{Client, Next};

impl Client {
    /// True if a model is declared warm.
    pub(super) fn is_warm(&self, manifest: ManifestId) -> (Message, Next) {
        let warm = self.status.as_ref().and_then(|status| {
            let status = status.borrow();
            let id = self.target.store.id().to_string();
            let mut stores = status.as_ref()?.stores.iter();
            let store = stores.find(|store| store.id.as_ref() == Some(&id))?;
            let name = format!("manifest-{manifest}");
            let mut models = store.models.iter();
            Some(models.any(|model| model.id == name && model.warm))
        });
        let answer = match warm {
            Some(warm) => Message::Warm { warm },
            None => Message::Error {
                code: ErrorCode::UNAVAILABLE,
                text: "the daemon has not looked at the store yet; ask again soon".to_owned(),
            },
        };
        let next = match warm {
            Some(_) => Next::Another,
            None => Next::Hangup,
        };
        (answer, next)
    }
}
