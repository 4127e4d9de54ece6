//! Answers of Prometheus's `GET /api/v1/query`.
//!
//! An answer is parsed twice: for its kind, and for the results of that kind. The generic tree of JSON
//! would take 30 bytes of memory and more for each byte of a hostile answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tetris_scaler_core::Rate;

use super::LoadError;
use crate::shown::shown;

/// Maximum requests per second of a sample.
const MOST: f64 = 1e9;
/// Maximum latency of a sample, in seconds.
const MOST_SECONDS: f64 = 86_400.0;

#[derive(Debug, Deserialize)]
struct Answer<D> {
    data: D,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind<'a> {
    #[serde(borrow)]
    result_type: Cow<'a, str>,
    #[serde(rename = "result")]
    _result: IgnoredAny,
}

#[derive(Debug, Deserialize)]
struct Data<R> {
    result: R,
}

#[derive(Debug, Deserialize)]
struct Sample {
    #[serde(default)]
    metric: Labels,
    value: (f64, String),
}

/// The labels that count.
#[derive(Debug, Default, Deserialize)]
struct Labels {
    #[serde(default)]
    pod: Option<String>,
}

/// Error message of a refused query.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) error: String,
}

/// Returns the load: the sum of an instant vector, or a scalar.
///
/// # Errors
///
/// Fails if the answer is malformed, empty, or contains a value that is not a load.
pub fn total(body: &[u8]) -> Result<Rate, LoadError> {
    if is_scalar(body)? {
        return rate(&scalar(body)?);
    }
    let samples = samples(body)?;
    if samples.is_empty() {
        return Err(LoadError::Empty);
    }
    samples.iter().map(|sample| rate(&sample.value.1)).sum()
}

/// Returns the loads of instances by the label `pod`. Sums samples of the same pod, and skips
/// samples without the label.
///
/// # Errors
///
/// Fails if the answer is malformed or not an instant vector.
pub fn by_pod(body: &[u8]) -> Result<BTreeMap<String, Rate>, LoadError> {
    let mut pods: BTreeMap<String, Rate> = BTreeMap::new();
    for sample in samples(body)? {
        // An invalid sample leaves the load of its instance unknown.
        let (Some(pod), Ok(load)) = (sample.metric.pod, rate(&sample.value.1)) else {
            continue;
        };
        let sum = pods.entry(pod).or_default();
        *sum = sum.plus(load);
    }
    Ok(pods)
}

/// Returns the largest latency of an instant vector, or a scalar, in microseconds. A series without
/// requests has none.
///
/// # Errors
///
/// Fails if the answer is malformed, or has no latency.
pub fn latency(body: &[u8]) -> Result<u64, LoadError> {
    let values: Vec<String> = if is_scalar(body)? {
        vec![scalar(body)?]
    } else {
        let samples = samples(body)?.into_iter();
        samples.map(|sample| sample.value.1).collect()
    };
    let mut most = None;
    for value in &values {
        most = most.max(micros(value)?);
    }
    most.ok_or(LoadError::Empty)
}

/// Returns seconds in microseconds; `None` for the quantile of no requests.
fn micros(value: &str) -> Result<Option<u64>, LoadError> {
    let not_a_latency = || LoadError::NotALatency {
        value: shown(value, 64),
    };
    let seconds: f64 = value.parse().map_err(|_| not_a_latency())?;
    if seconds.is_nan() {
        return Ok(None);
    }
    if !(0.0..=MOST_SECONDS).contains(&seconds) {
        return Err(not_a_latency());
    }
    Ok(Some(Duration::from_secs_f64(seconds).as_micros() as u64))
}

fn is_scalar(body: &[u8]) -> Result<bool, LoadError> {
    Ok(kind(body)? == "scalar")
}

fn kind(body: &[u8]) -> Result<Cow<'_, str>, LoadError> {
    let answer: Answer<Kind<'_>> =
        serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    Ok(answer.data.result_type)
}

fn scalar(body: &[u8]) -> Result<String, LoadError> {
    let (_, value): (f64, String) = result(body)?;
    Ok(value)
}

fn samples(body: &[u8]) -> Result<Vec<Sample>, LoadError> {
    let kind = kind(body)?;
    if kind != "vector" {
        let kind = shown(&kind, 64);
        return Err(LoadError::Kind { kind });
    }
    result(body)
}

fn result<R: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<R, LoadError> {
    let answer: Answer<Data<R>> =
        serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    Ok(answer.data.result)
}

fn rate(value: &str) -> Result<Rate, LoadError> {
    let not_a_load = || LoadError::NotALoad {
        value: shown(value, 64),
    };
    let rps: f64 = value.parse().map_err(|_| not_a_load())?;
    if rps > MOST {
        return Err(not_a_load());
    }
    Rate::try_from_rps_f64(rps).map_err(|_| not_a_load())
}

fn malformed(error: &serde_json::Error) -> LoadError {
    let problem = shown(&error.to_string(), 256);
    LoadError::Malformed { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str, result: &str) -> Vec<u8> {
        let data = format!(r#"{{"resultType":"{kind}","result":{result}}}"#);
        format!(r#"{{"status":"success","data":{data}}}"#).into_bytes()
    }

    #[test]
    fn vectors_are_added_up_and_scalars_taken() {
        let two = r#"[{"metric":{"pod":"a"},"value":[1.5,"2.5"]},{"metric":{},"value":[1.5,"1"]}]"#;
        assert_eq!(total(&body("vector", two)), Ok(Rate::from_milli_rps(3_500)));
        let scalar = body("scalar", r#"[1.5,"7"]"#);
        assert_eq!(total(&scalar), Ok(Rate::from_rps(7)));
        let pods = by_pod(&body("vector", two)).unwrap();
        assert_eq!(
            pods.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), Rate::from_milli_rps(2_500))]
        );
    }

    #[test]
    fn the_largest_latency_counts_and_series_without_requests_do_not() {
        let series = |values: &[&str]| {
            let sample = |value: &&str| format!(r#"{{"metric":{{}},"value":[1,"{value}"]}}"#);
            let all: Vec<String> = values.iter().map(sample).collect();
            latency(&body("vector", &format!("[{}]", all.join(","))))
        };
        assert_eq!(series(&["0.05", "NaN", "0.2"]), Ok(200_000));
        assert_eq!(latency(&body("scalar", r#"[1.5,"0.07"]"#)), Ok(70_000));
        assert_eq!(series(&["NaN"]), Err(LoadError::Empty));
        assert_eq!(series(&[]), Err(LoadError::Empty));
        for value in ["-1", "+Inf", "1e300", "soon"] {
            let answer = series(&["0.1", value]);
            assert!(
                matches!(answer, Err(LoadError::NotALatency { .. })),
                "{value}: {answer:?}"
            );
        }
    }

    #[test]
    fn what_is_not_a_load_is_not_known() {
        for value in ["NaN", "+Inf", "-1", "1e10", "many", ""] {
            let sample = format!(r#"[{{"metric":{{"pod":"a"}},"value":[1,"{value}"]}}]"#);
            let answer = total(&body("vector", &sample));
            assert!(
                matches!(answer, Err(LoadError::NotALoad { .. })),
                "{value}: {answer:?}"
            );
            assert_eq!(by_pod(&body("vector", &sample)), Ok(BTreeMap::new()));
        }
        assert_eq!(total(&body("vector", "[]")), Err(LoadError::Empty));
        assert!(matches!(
            total(&body("matrix", "[]")),
            Err(LoadError::Kind { .. })
        ));
        for text in [
            "",
            "{}",
            "[1]",
            r#"{"data":{"resultType":"vector","result":7}}"#,
        ] {
            let answer = total(text.as_bytes());
            assert!(
                matches!(answer, Err(LoadError::Malformed { .. })),
                "{text}: {answer:?}"
            );
        }
    }
}
