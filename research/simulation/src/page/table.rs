//! Tables.

use std::fmt::Write as _;

/// A row: its cells, and a class of the style sheet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Markup of each cell.
    pub cells: Vec<String>,
    /// Class of the row, e.g. `winner`; none if empty.
    pub class: &'static str,
}

impl From<Vec<String>> for Row {
    fn from(cells: Vec<String>) -> Self {
        Self { cells, class: "" }
    }
}

/// Returns a table with numbers in the columns from `numbers` on.
pub fn table<R: Into<Row>>(
    heads: &[&str],
    numbers: usize,
    rows: impl Iterator<Item = R>,
) -> String {
    let class = |at: usize| {
        if at < numbers {
            ""
        } else {
            " class=\"number\""
        }
    };
    let mut text = String::from("<div class=\"scroll\"><table><thead><tr>");
    for (at, head) in heads.iter().enumerate() {
        let _infallible = write!(text, "<th{}>{head}</th>", class(at));
    }
    text.push_str("</tr></thead><tbody>");
    for row in rows {
        let row = row.into();
        if row.class.is_empty() {
            text.push_str("<tr>");
        } else {
            let _infallible = write!(text, "<tr class=\"{}\">", row.class);
        }
        for (at, cell) in row.cells.iter().enumerate() {
            let _infallible = write!(text, "<td{}>{cell}</td>", class(at));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_numbers_and_rows_have_their_classes() {
        let row = |class| Row {
            cells: vec!["a".to_owned(), "1".to_owned()],
            class,
        };
        let text = table(&["name", "n"], 1, [row("winner"), row("")].into_iter());
        assert!(text.contains("<th>name</th><th class=\"number\">n</th>"));
        let cells = "<td>a</td><td class=\"number\">1</td></tr>";
        assert!(
            text.contains(&format!("<tr class=\"winner\">{cells}<tr>{cells}")),
            "{text}"
        );
    }
}
