//! The pages of a store, as `init` and `stat` say them.

use std::sync::Arc;

use serde_json::{Value, json};
use tetris_agent::{PrivateCause, Store, Words};
use tetris_store_layout::{IoError, ObjectEntry, Pages, PublishError};

/// The reason that the pages of a store are not known.
#[derive(Debug, Clone, thiserror::Error)]
enum NoPages {
    #[error("no object of 2 MiB is there to be looked at, and this process can write none")]
    NoObject,
    #[error("the store has hardly any room left")]
    NoRoom,
    #[error(transparent)]
    Look(Arc<IoError>),
    #[error(transparent)]
    Probe(Arc<PublishError>),
}

/// Knowledge of a store's pages.
#[derive(Debug, Clone)]
pub(super) struct SeenPages {
    pages: Result<Pages, NoPages>,
    /// The mount's option.
    huge: Option<String>,
}

impl SeenPages {
    /// Of what is published from now on; where nothing can be written, of what is there.
    pub(super) fn of_new_files(store: &Store) -> Self {
        let mut seen = Self::of(store, probe(store));
        if seen.pages.is_err()
            && let Ok(listing) = store.objects()
            && let Ok(Some(pages)) = store.object_pages(&listing.objects)
        {
            seen.pages = Ok(pages);
        }
        seen
    }

    /// Of the objects that are there; where none is large enough to tell, of what would be published now.
    pub(super) fn of_objects(store: &Store, objects: &[ObjectEntry]) -> Self {
        let pages = match store.object_pages(objects) {
            Ok(Some(pages)) => Ok(pages),
            Ok(None) if store.is_writable() => probe(store),
            Ok(None) => Err(NoPages::NoObject),
            Err(error) => Err(NoPages::Look(Arc::new(error))),
        };
        Self::of(store, pages)
    }

    fn of(store: &Store, pages: Result<Pages, NoPages>) -> Self {
        let huge = store.huge_option();
        Self { pages, huge }
    }

    /// The mount's option `huge`, unless it is `never`: what was asked for.
    pub(super) fn huge(&self) -> Option<&str> {
        self.huge.as_deref().filter(|huge| *huge != "never")
    }

    /// The reason why not all pages are large, where that is known.
    pub(super) fn small_because(&self) -> Option<String> {
        let pages = self.pages.as_ref().ok()?;
        pages.small_because.as_ref().map(ToString::to_string)
    }

    /// The next step where the mount asks for no large pages, behind a semicolon; nothing where the machine
    /// has none to give.
    pub(super) fn remedy(&self, store: &Store) -> String {
        if self.huge().is_some() {
            return String::new();
        }
        let remedy = PrivateCause::SmallPages.remedy(Words::CommandLine, store.root());
        format!("; {remedy}")
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        match &self.pages {
            Ok(pages) => pages.to_string(),
            Err(why) => {
                let asked = match self.huge() {
                    Some(huge) => format!("the mount asks for 2 MiB by huge={huge}"),
                    None => "the mount asks for none of 2 MiB".to_owned(),
                };
                format!("not known: {why}; {asked}")
            }
        }
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        match &self.pages {
            Ok(pages) => json!({
                "of": pages.of.name(),
                "looked_at_bytes": pages.looked_at,
                "large_bytes": pages.large,
                "small_because": pages.small_because.as_ref().map(|reason| json!({
                    "name": reason.name(),
                    "text": reason.to_string(),
                })),
            }),
            Err(why) => json!({ "unknown": why.to_string() }),
        }
    }
}

fn probe(store: &Store) -> Result<Pages, NoPages> {
    let probed = store.probe_pages();
    probed
        .map_err(|error| NoPages::Probe(Arc::new(error)))?
        .ok_or(NoPages::NoRoom)
}
