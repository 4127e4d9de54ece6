//! Agreement of checksums between the methods.

use std::collections::BTreeMap;

use crate::data::MethodReport;
use crate::methods::Method;

/// Describes the first difference in a sentence; `None` if all checksums agree.
///
/// Instances with the same pattern of files must have the same checksum with every method. Workers
/// with PyTorch compute another checksum, and weights that are cast have a different one, so each
/// kind is compared only with itself.
pub fn disagreement(methods: &[MethodReport], patterns: usize) -> Option<String> {
    let mut known: BTreeMap<(bool, bool, usize), (&str, Method)> = BTreeMap::new();
    for report in methods {
        for start in &report.starts {
            let pattern = start.instance % patterns.max(1);
            let (checksum, method) = *known
                .entry((report.method.needs_python(), report.method.casts(), pattern))
                .or_insert((&start.checksum, report.method));
            if checksum != start.checksum {
                return Some(format!(
                    "instance {} computed {} under {} but {checksum} under {}",
                    start.instance,
                    start.checksum,
                    report.method.name(),
                    method.name(),
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Outcome, Start};
    use crate::methods::StoreUse;

    fn report(method: Method, checksums: &[&str]) -> MethodReport {
        let start = |(instance, checksum): (usize, &&str)| Start {
            instance,
            repeat: false,
            attach_ns: 0,
            touch_ns: 0,
            first_result_ns: 0,
            checksum: (*checksum).to_owned(),
            store: StoreUse::default(),
        };
        MethodReport {
            method,
            description: String::new(),
            outcome: Outcome::Measured,
            group: Vec::new(),
            limited: None,
            marginal_bytes: None,
            interpreter_bytes: None,
            starts: checksums.iter().enumerate().map(start).collect(),
            repeated: None,
            first: None,
            pass_ns: Vec::new(),
            merging: Vec::new(),
        }
    }

    #[test]
    fn equal_files_must_give_equal_sums() {
        let private = report(Method::Private, &["a", "b", "a"]);
        assert_eq!(
            disagreement(&[private.clone(), report(Method::Tetris, &["a", "b"])], 2),
            None
        );
        let wrong =
            disagreement(&[private.clone(), report(Method::Tetris, &["a", "c"])], 2).unwrap();
        assert!(
            wrong.contains("instance 1") && wrong.contains("tetris"),
            "{wrong}"
        );
        assert!(disagreement(&[private], 1).is_some());
    }

    #[test]
    fn cast_weights_are_compared_with_each_other() {
        let whole = report(Method::TorchSafetensors, &["a"]);
        let cast = report(Method::TorchCast, &["b"]);
        let derived = |sum| report(Method::TorchDerived, &[sum]);
        let agree = [whole.clone(), cast.clone(), derived("b")];
        assert_eq!(disagreement(&agree, 1), None);
        let wrong = disagreement(&[whole, cast, derived("a")], 1).unwrap();
        assert!(wrong.contains("torch-derived"), "{wrong}");
    }
}
