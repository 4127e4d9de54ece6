//! OpenMetrics text, taken apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One line with a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// A scrape.
pub struct Scrape {
    pub text: String,
    /// Types by family.
    pub families: BTreeMap<String, String>,
    pub samples: Vec<Sample>,
}

impl Scrape {
    /// Panics where the text is not well-formed, so every use is a test of that.
    pub fn parse(text: &str) -> Self {
        assert!(text.ends_with("# EOF\n"), "no end: {text}");
        let mut families = BTreeMap::new();
        let mut samples = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                let twice = families.insert(name.to_owned(), kind.to_owned());
                assert_eq!(twice, None, "{name} is there twice");
            } else if !line.starts_with('#') {
                samples.push(sample(line));
            }
        }
        let series: BTreeSet<_> = samples.iter().map(|s| (&s.name, &s.labels)).collect();
        assert_eq!(series.len(), samples.len(), "a series is there twice");
        Self {
            text: text.to_owned(),
            families,
            samples,
        }
    }

    /// The value of the series with exactly these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: BTreeMap<String, String> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        self.samples
            .iter()
            .find(|s| s.name == name && s.labels == labels)
            .map(|s| s.value)
    }

    /// The family that a sample or PromQL name belongs to.
    pub fn family(&self, name: &str) -> Option<&str> {
        let allowed = |kind: &str, suffix: &str| match suffix {
            "" => kind == "gauge",
            "_total" => kind == "counter",
            _ => kind == "histogram",
        };
        ["", "_total", "_bucket", "_sum", "_count"]
            .into_iter()
            .find_map(|suffix| {
                let (family, kind) = self.families.get_key_value(name.strip_suffix(suffix)?)?;
                allowed(kind, suffix).then_some(family.as_str())
            })
    }

    /// Values of each label of samples with this name.
    pub fn labels(&self, name: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (key, value) in self
            .samples
            .iter()
            .filter(|s| s.name == name)
            .flat_map(|s| &s.labels)
        {
            labels.entry(key.clone()).or_default().insert(value.clone());
        }
        labels
    }

    /// The same as Prometheus' older text format, which `promtool check metrics` reads: there
    /// `_total` is part of a family's name.
    pub fn classic(&self) -> String {
        let mut out = String::new();
        for line in self.text.lines() {
            let mut words = line.splitn(4, ' ');
            let (hash, what, name) = (words.next(), words.next(), words.next());
            match (hash, what, name) {
                (Some("#"), Some("UNIT" | "EOF"), _) => continue,
                (Some("#"), Some(what), Some(name)) if self.families[name] == "counter" => {
                    let rest = words.next().unwrap();
                    write!(out, "# {what} {name}_total {rest}").unwrap();
                }
                _ => out += line,
            }
            out.push('\n');
        }
        out
    }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}').unwrap();
    Sample {
        name: name.to_owned(),
        // No value of the fixtures has a comma within quotes followed by a quote.
        labels: labels
            .split("\",")
            .filter(|label| !label.is_empty())
            .map(|label| {
                let (key, value) = label.split_once("=\"").unwrap();
                (key.to_owned(), value.trim_end_matches('"').to_owned())
            })
            .collect(),
        value: value.parse().unwrap(),
    }
}
