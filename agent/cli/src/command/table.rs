//! Tables in plain text.

use comfy_table::CellAlignment;
use comfy_table::presets::NOTHING;

use super::error::Result;
use super::output::{Output, printable};

/// On which side a column's cells begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under a head.
#[derive(Debug)]
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: &[(&'static str, Side)]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_preset(NOTHING);
        table.set_header(columns.iter().map(|(name, _)| *name));
        for (column, (_, side)) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match side {
                Side::Left => CellAlignment::Left,
                Side::Right => CellAlignment::Right,
            });
        }
        Self(table)
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.0.column_count());
        self.0
            .add_row(cells.map(|cell| printable(&cell).into_owned()));
    }

    /// Prints the table, or `empty` when it has no rows.
    pub(crate) fn print(&self, out: &mut Output, empty: &str) -> Result {
        if self.0.row_iter().next().is_none() {
            return out.line(empty);
        }
        let mut lines = self.0.lines();
        out.heading(lines.next().unwrap_or_default().trim_end())?;
        lines.try_for_each(|line| out.line(line.trim_end()))
    }
}

/// The last `width` characters of `text`: the end of a path matters more than its beginning.
pub(crate) fn cut_begin(text: &str, width: usize) -> String {
    let chars = text.chars().count();
    if chars <= width {
        return text.to_owned();
    }
    let kept = text.chars().skip(chars + 3 - width.max(3));
    ["...".to_owned(), kept.collect()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_left_and_numbers_end_right() {
        let mut table = Table::new(&[("name", Side::Left), ("size", Side::Right)]);
        table.row(["a".into(), "7".into()]);
        table.row(["long name".into(), "12345".into()]);
        let lines: Vec<String> = table.0.lines().collect();
        let lines = lines.iter().map(|line| line.trim_end());
        assert_eq!(
            lines.collect::<Vec<_>>(),
            ["name        size", "a              7", "long name  12345"]
        );
    }

    #[test]
    fn paths_keep_their_end() {
        assert_eq!(cut_begin("/a/b", 10), "/a/b");
        assert_eq!(
            cut_begin("/models/bert/model.safetensors", 16),
            "...l.safetensors"
        );
        assert_eq!(cut_begin("abcdefgh", 5), "...gh");
    }
}
