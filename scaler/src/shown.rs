//! Texts of peers in messages.

/// Returns the beginning of a peer's text, of at most `chars` characters, each without effect on a
/// terminal or a log.
pub(crate) fn shown(text: &str, chars: usize) -> String {
    let visible = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().take(chars).map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_text_is_cut_and_cannot_move_the_cursor() {
        assert_eq!(shown("a\u{1b}[2Jb", 5), "a\u{fffd}[2J");
        assert_eq!(shown("grün", 10), "grün");
    }
}
