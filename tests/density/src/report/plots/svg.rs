//! A drawing as text: frames, ticks, lines, and labels that keep their distance.

use std::fmt::Write;

/// Width of every plot in its own units.
pub const WIDTH: f64 = 640.0;

/// Escapes text for HTML and SVG.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A drawing under construction.
pub struct Svg {
    body: String,
    height: f64,
    title: String,
}

/// Anchor of a text.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Svg {
    /// Creates an empty drawing. Screen readers read the title, and browsers show it as a tooltip.
    pub fn new(height: f64, title: &str) -> Self {
        Self {
            body: String::new(),
            height,
            title: escape(title),
        }
    }

    /// Returns the finished element.
    pub fn finish(self) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            self.height, self.title, self.body
        )
    }

    /// Adds a straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// Adds connected lines.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(data, "{command}{x:.1} {y:.1}");
        }
        self.add(format_args!("<path class=\"line {class}\" d=\"{data}\"/>"));
    }

    /// Adds a measured point with a tooltip.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), tip: &str) {
        self.add(format_args!(
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}</title></circle>",
            escape(tip)
        ));
    }

    /// Adds a bar.
    pub fn bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.add(format_args!(
            "<rect class=\"bar {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\"/>"
        ));
    }

    /// Adds the outline of a bar whose end is unknown.
    pub fn open_bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let bottom = y + height;
        let right = x + width;
        self.add(format_args!(
            "<path class=\"open {class}\" d=\"M{x:.1} {y:.1}H{right:.1}M{x:.1} {bottom:.1}H{right:.1}\"/>"
        ));
    }

    /// Adds a text.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        ));
    }

    /// Adds the title of a vertical axis, rotated along it.
    pub fn side_text(&mut self, y: f64, text: &str) {
        self.add(format_args!(
            "<text class=\"axis\" transform=\"translate(14 {y:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(text)
        ));
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(element);
    }
}

/// Moves labels apart so that neighbors are at least `distance` apart, within `top..bottom`.
///
/// Takes and returns the vertical positions in the same order.
pub fn spread(places: &[f64], distance: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&a, &b| places[a].total_cmp(&places[b]));
    let mut spread = places.to_vec();
    let mut least = top;
    for &index in &order {
        spread[index] = spread[index].max(least);
        least = spread[index] + distance;
    }
    let mut most = bottom;
    for &index in order.iter().rev() {
        spread[index] = spread[index].min(most);
        most = spread[index] - distance;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance() {
        let spread = spread(&[100.0, 99.0, 20.0, 100.0], 10.0, 0.0, 105.0);
        assert!((spread[2] - 20.0).abs() < 1e-9);
        let mut sorted = spread.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(
            sorted.windows(2).all(|pair| pair[1] - pair[0] >= 10.0),
            "{spread:?}"
        );
        assert!(sorted[3] <= 105.0);
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }
}
