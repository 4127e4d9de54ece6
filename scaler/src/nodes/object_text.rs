//! Object ids in the encoding of a daemon's page.

use serde::Deserialize;
use tetris_store_layout::ObjectId;

/// An object id in the page's encoding.
#[derive(Debug)]
pub(super) struct ObjectText(pub(super) ObjectId);

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}
