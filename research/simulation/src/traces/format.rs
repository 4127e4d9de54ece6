//! Formats of files, and their headers.

use std::fmt;

use csv::ByteRecord;
use serde::{Deserialize, Serialize};

/// Format of a file of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TraceFormat {
    /// Azure Functions 2019: requests of each function by minute of a day.
    #[serde(rename = "azure-functions-2019")]
    AzureFunctions2019,
    /// Azure Functions 2021: a row for each invocation, with its end and its duration.
    #[serde(rename = "azure-functions-2021")]
    AzureFunctions2021,
    /// BurstGPT: a row for each request to a language model.
    #[serde(rename = "burstgpt")]
    BurstGpt,
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AzureFunctions2019 => "azure-functions-2019",
            Self::AzureFunctions2021 => "azure-functions-2021",
            Self::BurstGpt => "burstgpt",
        })
    }
}

/// Places of the columns that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    /// Azure Functions 2019, with this number of minutes.
    PerMinute { minutes: usize },
    /// Azure Functions 2021.
    Invocations,
    /// BurstGPT.
    Prompts {
        timestamp: usize,
        model: usize,
        elapsed: Option<usize>,
    },
}

/// Columns of Azure Functions 2019 before those of minutes.
pub(super) const IDS_2019: [&str; 4] = ["HashOwner", "HashApp", "HashFunction", "Trigger"];
/// Number of minutes of a day, and so of columns in a file of Azure Functions 2019.
const MINUTES_OF_A_DAY: usize = 1_440;
const COLUMNS_2021: [&str; 4] = ["app", "func", "end_timestamp", "duration"];
const BURSTGPT: [&str; 6] = [
    "Timestamp",
    "Model",
    "Request tokens",
    "Response tokens",
    "Total tokens",
    "Log Type",
];
/// Columns that only newer files of BurstGPT have.
const BURSTGPT_NEWER: [&str; 2] = ["Session ID", "Elapsed time"];

impl Columns {
    /// Finds the columns by the names in the file's first line; `None` if they are of no supported format.
    pub(super) fn of(header: &ByteRecord) -> Option<Self> {
        per_minute(header)
            .or_else(|| {
                header
                    .iter()
                    .eq(bytes(&COLUMNS_2021))
                    .then_some(Self::Invocations)
            })
            .or_else(|| prompts(header))
    }

    /// Format of the file.
    pub(super) const fn format(self) -> TraceFormat {
        match self {
            Self::PerMinute { .. } => TraceFormat::AzureFunctions2019,
            Self::Invocations => TraceFormat::AzureFunctions2021,
            Self::Prompts { .. } => TraceFormat::BurstGpt,
        }
    }
}

fn bytes<'a>(names: &'a [&str]) -> impl Iterator<Item = &'a [u8]> {
    names.iter().map(|name| name.as_bytes())
}

fn per_minute(header: &ByteRecord) -> Option<Columns> {
    let minutes = header.len().checked_sub(IDS_2019.len())?;
    if !(1..=MINUTES_OF_A_DAY).contains(&minutes) {
        return None;
    }
    let (ids, counts) = (
        header.iter().take(IDS_2019.len()),
        header.iter().skip(IDS_2019.len()),
    );
    let numbers = (1..=minutes).map(|minute| minute.to_string());
    let in_order = counts
        .zip(numbers)
        .all(|(name, number)| name == number.as_bytes());
    (ids.eq(bytes(&IDS_2019)) && in_order).then_some(Columns::PerMinute { minutes })
}

fn prompts(header: &ByteRecord) -> Option<Columns> {
    let place = |name: &str| header.iter().position(|column| column == name.as_bytes());
    let newer = BURSTGPT_NEWER.iter().filter_map(|name| place(name)).count();
    let complete = BURSTGPT.iter().all(|name| place(name).is_some());
    if !complete || header.len() != BURSTGPT.len() + newer {
        return None;
    }
    Some(Columns::Prompts {
        timestamp: place("Timestamp")?,
        model: place("Model")?,
        elapsed: place("Elapsed time"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &str) -> Option<Columns> {
        Columns::of(&ByteRecord::from(header.split(',').collect::<Vec<_>>()))
    }

    #[test]
    fn headers_are_those_of_the_published_files() {
        let day: Vec<String> = (1..=1_440).map(|minute| minute.to_string()).collect();
        let header = |minutes: &[String]| {
            format!(
                "HashOwner,HashApp,HashFunction,Trigger,{}",
                minutes.join(",")
            )
        };
        assert_eq!(
            columns(&header(&day)),
            Some(Columns::PerMinute { minutes: 1_440 })
        );
        assert_eq!(
            columns(&header(&day[..3])),
            Some(Columns::PerMinute { minutes: 3 })
        );
        assert_eq!(columns(&header(&day[1..])), None);
        assert_eq!(columns("HashOwner,HashApp,HashFunction,Trigger"), None);
        assert_eq!(
            columns("app,func,end_timestamp,duration"),
            Some(Columns::Invocations)
        );
        assert_eq!(columns("app,func,duration,end_timestamp"), None);
        let older = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";
        let prompts = |model, elapsed| {
            Some(Columns::Prompts {
                timestamp: 0,
                model,
                elapsed,
            })
        };
        assert_eq!(columns(older), prompts(1, None));
        let newer = older.replace("Model", "Session ID,Elapsed time,Model");
        assert_eq!(columns(&newer), prompts(3, Some(2)));
        assert_eq!(columns(&older.replace("Log Type", "Model")), None);
        assert_eq!(columns(&format!("{older},Price")), None);
    }
}
