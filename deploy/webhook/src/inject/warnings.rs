//! Warnings, as short as the API server passes them on.

/// The longest warning that the API server promises not to cut.
pub const WARNING_CHARS: usize = 256;
/// The most warnings about one pod: the API server drops them all when they come to more than 4 KiB.
pub const MAX_WARNINGS: usize = 12;
/// Maximum length of a user's text in a warning, in characters.
const SHOWN_CHARS: usize = 40;

/// Warnings for a pod's author.
#[derive(Debug, Default)]
pub(super) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds one, unless it is there or there are too many.
    pub(super) fn push(&mut self, text: impl Into<String>) {
        let text = cut(&text.into(), WARNING_CHARS);
        if self.0.len() < MAX_WARNINGS && !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// A user's text in quotes, without control characters, and cut.
pub(super) fn shown(text: &str) -> String {
    format!("{:?}", cut(text, SHOWN_CHARS))
}

fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let kept = text.chars().take(chars.saturating_sub(3));
    kept.chain("...".chars()).collect()
}
