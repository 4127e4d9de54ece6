//! The section on how to read the page.

use std::collections::BTreeSet;

use crate::data::Report;
use crate::methods::Method;
use crate::report::legend::TERMS;
use crate::report::plots::escape;

/// Formats the meanings of the methods in the report and of the words in its tables.
pub fn legend(report: &Report) -> String {
    let methods: BTreeSet<Method> = report
        .workloads
        .iter()
        .flat_map(|workload| &workload.methods)
        .map(|entry| entry.method)
        .collect();
    let methods: String = methods.into_iter().map(method).collect();
    let terms: String = TERMS
        .iter()
        .map(|term| entry(&escape(&term.words.join(", ")), term.meaning))
        .collect();
    format!("<section><h2>How to read it</h2><dl class=\"legend\">{methods}{terms}</dl></section>")
}

fn method(method: Method) -> String {
    let name = method.name();
    let key = format!("<i class=\"key {name}\"></i>{name}");
    entry(&key, method.description())
}

fn entry(word: &str, meaning: &str) -> String {
    format!("<dt>{word}</dt><dd>{}</dd>", escape(meaning))
}
