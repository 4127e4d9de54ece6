//! Tables in plain text.

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
pub(crate) struct Table {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: &[(&'static str, Side)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len());
        let printable = |cell: String| printable(&cell).into_owned();
        self.rows.push(cells.map(printable).into());
    }

    /// Prints the table, or `empty` when it has no rows.
    pub(crate) fn print(&self, out: &mut Output, empty: &str) -> Result {
        if self.rows.is_empty() {
            return out.line(empty);
        }
        let head: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _)| (*name).into())
            .collect();
        let widths = self.widths(&head);
        out.heading(self.format(&head, &widths))?;
        for row in &self.rows {
            out.line(self.format(row, &widths))?;
        }
        Ok(())
    }

    fn widths(&self, head: &[String]) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for row in self.rows.iter().map(Vec::as_slice).chain([head]) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn format(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, &width), (_, side)) in row.iter().zip(widths).zip(&self.columns) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            match side {
                Side::Left => line.extend([cell.as_str(), &pad]),
                Side::Right => line.extend([pad.as_str(), cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The last `width` characters of `text`: the end of a path tells more than its begin.
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
        let head = ["name".to_owned(), "size".to_owned()];
        let widths = table.widths(&head);
        assert_eq!(table.format(&head, &widths), "name        size");
        assert_eq!(table.format(&table.rows[0], &widths), "a              7");
        assert_eq!(table.format(&table.rows[1], &widths), "long name  12345");
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
