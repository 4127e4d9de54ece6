//! Tables and paragraphs for a terminal, at most [`WIDTH`] columns wide.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent};

/// Maximum width of a line.
pub const WIDTH: usize = 80;
/// Space between two columns.
const PADDING: u16 = 2;
/// Width up to which the text of a key column stays in one line.
const KEY: usize = 30;
/// Width up to which the text of another column stays in one line.
const PROSE: usize = 20;

/// A table. Too many columns become several parts, one below the other, each with the key columns.
#[derive(Debug)]
pub struct TextTable {
    columns: Vec<Column>,
    keys: usize,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    name: String,
    is_number: bool,
    /// True if it stays in the same part as the column before it.
    is_beside: bool,
}

impl TextTable {
    /// Creates a table whose first `keys` columns name a row. A header with the prefix `#` marks a
    /// column of numbers, with `+` one that belongs to the column before it. Headers and cells may
    /// have several lines.
    pub fn new(keys: usize, header: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let columns = header.into_iter().map(|text| {
            let text = text.as_ref();
            let name = text.trim_start_matches(['#', '+']);
            Column {
                name: name.to_owned(),
                is_number: name != text,
                is_beside: text.starts_with('+'),
            }
        });
        Self {
            columns: columns.collect(),
            keys,
            rows: Vec::new(),
        }
    }

    /// Adds a row. Cells that it lacks are empty.
    pub fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Formats the parts, without a line feed at the end.
    pub fn format(&self) -> String {
        let parts: Vec<String> = self.parts().iter().map(|part| self.draw(part)).collect();
        parts.join("\n\n")
    }

    /// Columns of each part, by index.
    fn parts(&self) -> Vec<Vec<usize>> {
        let keys = || (0..self.keys).collect::<Vec<_>>();
        let width = |columns: &[usize]| -> usize {
            let columns = columns.iter();
            columns
                .map(|&at| self.width(at) + usize::from(PADDING))
                .sum()
        };
        let (mut parts, mut part) = (Vec::new(), keys());
        for unit in self.units() {
            if part.len() > self.keys && width(&part) + width(&unit) > WIDTH {
                parts.push(std::mem::replace(&mut part, keys()));
            }
            part.extend(unit);
        }
        parts.push(part);
        parts
    }

    /// Columns after the keys, in groups that stay together.
    fn units(&self) -> Vec<Vec<usize>> {
        let mut units: Vec<Vec<usize>> = Vec::new();
        for (at, column) in self.columns.iter().enumerate().skip(self.keys) {
            match units.last_mut() {
                Some(unit) if column.is_beside => unit.push(at),
                _ => units.push(vec![at]),
            }
        }
        units
    }

    /// Width that a column needs; long texts can be wrapped, numbers cannot.
    fn width(&self, at: usize) -> usize {
        let Some(column) = self.columns.get(at) else {
            return 0;
        };
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        let lines = cells.chain([&column.name]).flat_map(|text| text.lines());
        let widest = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        if column.is_number {
            widest
        } else if at < self.keys {
            widest.min(KEY)
        } else {
            widest.min(PROSE)
        }
    }

    fn draw(&self, part: &[usize]) -> String {
        let columns: Vec<&Column> = part.iter().filter_map(|&at| self.columns.get(at)).collect();
        let mut table = Table::new();
        table
            .load_preset(UTF8_HORIZONTAL_ONLY)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH as u16)
            .set_header(columns.iter().map(|column| &column.name));
        // A line below the header is enough.
        for line in [
            TableComponent::TopBorder,
            TableComponent::BottomBorder,
            TableComponent::HorizontalLines,
            TableComponent::MiddleIntersections,
            TableComponent::MiddleHeaderIntersections,
            TableComponent::TopBorderIntersections,
            TableComponent::BottomBorderIntersections,
            TableComponent::LeftBorderIntersections,
            TableComponent::RightBorderIntersections,
        ] {
            table.remove_style(line);
        }
        for (column, drawn) in columns.iter().zip(table.column_iter_mut()) {
            drawn.set_padding((0, PADDING));
            if column.is_number {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in &self.rows {
            table.add_row(
                part.iter()
                    .map(|&at| row.get(at).map_or("", String::as_str)),
            );
        }
        table.trim_fmt()
    }
}

/// Breaks a text into lines of at most [`WIDTH`] columns. The first keeps its leading spaces, the
/// others begin with `indent` spaces. A longer word, e.g. a path, has its own line.
pub fn wrap(text: &str, indent: usize) -> String {
    let words = text.trim_start_matches(' ');
    let mut width = text.len() - words.len();
    let mut lines = " ".repeat(width);
    for (number, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && width + 1 + length > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            width = indent;
        } else if number > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines
}

/// Formats an entry of a legend: `words` of a table with their meaning, indented and wrapped.
pub fn entry(words: &str, meaning: &str) -> String {
    wrap(&format!("  {words}: {meaning}"), 4)
}

/// Formats a legend: a heading, and an entry for each pair of words and their meaning. Ends with a
/// line feed.
pub fn legend<W: AsRef<str>>(entries: impl IntoIterator<Item = (W, &'static str)>) -> String {
    let mut text = "Words of the tables:\n".to_owned();
    for (words, meaning) in entries {
        text.push_str(&entry(words.as_ref(), meaning));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        let lines = text.lines().map(|line| line.chars().count());
        lines.max().unwrap_or(0)
    }

    #[test]
    fn many_columns_become_parts_with_the_same_key() {
        let sizes: Vec<String> = (1..=20).map(|size| format!("#{size} inst.")).collect();
        let header = ["memory".to_owned()].into_iter().chain(sizes);
        let mut table = TextTable::new(1, header);
        let cells = (1..=20).map(|size| format!("{size}.25 GiB"));
        table.add(
            ["tetris-own-file".to_owned()]
                .into_iter()
                .chain(cells)
                .collect(),
        );
        let text = table.format();
        assert!(widest(&text) <= WIDTH, "{text}");
        assert!(text.matches("tetris-own-file").count() > 1, "{text}");
        for size in 1..=20 {
            assert_eq!(
                text.matches(&format!(" {size}.25 GiB")).count(),
                1,
                "{text}"
            );
        }
    }

    #[test]
    fn a_percentile_stays_beside_its_median() {
        let units = ["start", "files", "#attach", "+p95", "#touch", "+p95"];
        let table = TextTable::new(2, units);
        assert_eq!(table.units(), [vec![2, 3], vec![4, 5]]);
    }

    #[test]
    fn long_cells_are_wrapped() {
        let mut table = TextTable::new(1, ["bar", "ratio"]);
        table.add(vec!["words ".repeat(30), "more ".repeat(30)]);
        let text = table.format();
        assert!(widest(&text) <= WIDTH, "{text}");
        // In one part: the rows stay whole.
        assert_eq!(text.matches("ratio").count(), 1, "{text}");
    }

    #[test]
    fn numbers_end_below_their_head_and_a_head_may_have_two_lines() {
        let mut table = TextTable::new(1, ["policy", "#memory\nGB", "#late"]);
        table.add(["DTS", "7.5", "12"].map(str::to_owned).to_vec());
        table.add(["exact", "13.25", "1"].map(str::to_owned).to_vec());
        assert_eq!(
            table.format(),
            [
                "policy  memory  late",
                "            GB",
                "══════════════════════",
                "DTS        7.5    12",
                "exact    13.25     1",
            ]
            .join("\n")
        );
    }

    #[test]
    fn paragraphs_are_wrapped_and_indented() {
        let text = wrap(&format!("- {}", "word ".repeat(50).trim_end()), 2);
        assert!(widest(&text) <= WIDTH, "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")));
        assert_eq!(text.matches("word").count(), 50);
        assert_eq!(
            wrap("  own-file: a copy each", 4),
            "  own-file: a copy each"
        );
    }

    #[test]
    fn a_legend_has_an_entry_for_each_pair() {
        let text = legend([
            ("late", "beyond the objective"),
            ("cold", "read from the disk"),
        ]);
        let entries = "  late: beyond the objective\n  cold: read from the disk\n";
        assert_eq!(text, format!("Words of the tables:\n{entries}"));
    }
}
