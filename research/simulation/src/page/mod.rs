//! A report as one self-contained page: no scripts, no fonts, plots as inline SVG.
//!
//! Nothing is escaped: names and texts must be the program's own, markup, or go through [`escape`].

mod plot;
mod table;

pub use plot::{BarGroup, Line, bars, over_time};
pub use table::{Row, table};

const STYLE: &str = include_str!("style.css");

/// Returns the page. `lead` is the paragraph below the heading, and `body` its sections.
pub fn page(title: &str, heading: &str, lead: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\
         <header><h1>{heading}</h1><p class=\"lead\">{lead}</p></header>{body}</main></body></html>\n"
    )
}

/// Returns `text` with the characters of markup escaped.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns a section of plots.
pub fn plots(heading: &str, plots: &str) -> String {
    format!("<section><h2>{heading}</h2><div class=\"plots\">{plots}</div></section>")
}

/// Returns the name of a policy with the color of its place `index` in plots.
pub fn key(index: usize, policy: &str) -> String {
    format!("<span class=\"key k{index}\"></span>{policy}")
}
